"""Runs the long programs of a set-up: counts their lines, says how far they are, ends them in time."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from symphony.engine.run import watchdog

DEADLINE = 30 * 60.0


@dataclass(frozen=True, slots=True)
class WorkProgress:
    """What is being done, how far it is (total 0: nobody knows) and for how long it has been going on."""

    what: str
    done: int
    total: int
    seconds: float
    finished: bool = False


Report = Callable[[WorkProgress], None]


class Unavailable(Exception):
    """One way to get the engine does not work here; the text says why."""


class Work:
    """One piece of work with its clock: runs programs and reports each of their lines that counts."""

    def __init__(self, what: str, report: Report, total: int = 0) -> None:
        self._what = what
        self._report = report
        self._total = total
        self._done = 0
        self._began = time.monotonic()

    def __enter__(self) -> Work:
        self._say()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self._say(finished=True)

    def run(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        counts: Callable[[str], bool] = lambda line: False,
        check: bool = True,
    ) -> int:
        """Run a program to its end; with `check`, a failure is an Unavailable with its last line."""
        process = subprocess.Popen(
            arguments,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        deadline = threading.Timer(DEADLINE, watchdog.kill_session, (process.pid,))
        deadline.daemon = True
        deadline.start()
        last = ""
        try:
            assert process.stdout is not None
            for line in map(str.strip, process.stdout):
                last = line or last
                if counts(line):
                    self._done += 1
                    self._say()
            code = process.wait(timeout=60)
        finally:
            deadline.cancel()
            if process.poll() is None:
                watchdog.kill_session(process.pid)
                process.wait(timeout=10)
        if code and check:
            raise Unavailable(f"`{Path(arguments[0]).name} {arguments[1]}` failed: {last}")
        return code

    def _say(self, finished: bool = False) -> None:
        total = max(self._total, self._done) if self._total else 0
        done = total if finished else self._done
        self._report(WorkProgress(self._what, done, total, time.monotonic() - self._began, finished))
