"""Runs the long programs of a set-up: counts lines, says how far they are, ends them; setup.py calls it."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from symphony.engine.run import watchdog

DEADLINE = 30 * 60.0


@dataclass(frozen=True, slots=True)
class Progress:
    """What is being done, how far it is (total 0: nobody knows) and for how long it has been going on."""

    what: str
    done: int
    total: int
    seconds: float
    finished: bool = False


Report = Callable[[Progress], None]


class Unavailable(Exception):
    """One way to get the engine does not work here; the text says why."""


class Work:
    """One piece of work with its clock: runs programs, counts their lines, reports twice a second."""

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
        counts: Callable[[str], bool] | None = None,
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
        last = ""
        try:
            assert process.stdout is not None
            for line in _lines_until(process.stdout, self._began + DEADLINE, self._say):
                if counts is not None and counts(line):
                    self._done += 1
                last = line or last
            code = process.wait(timeout=60)
        finally:
            if process.poll() is None:
                watchdog.kill_session(process.pid)
                process.wait(timeout=10)
        if code and check:
            raise Unavailable(f"`{Path(arguments[0]).name} {arguments[1]}` failed: {last}")
        return code

    def _say(self, finished: bool = False) -> None:
        total = max(self._total, self._done) if self._total else 0
        done = total if finished else self._done
        self._report(Progress(self._what, done, total, time.monotonic() - self._began, finished))


def _lines_until(pipe: IO[str], deadline: float, tick: Callable[[], None]) -> Generator[str]:
    """The lines of a program's output as they come, with a tick twice a second, up to a deadline."""
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if time.monotonic() > deadline:
                raise Unavailable(f"it did not end within {DEADLINE / 60:.0f} minutes")
            ready = selector.select(0.5)
            tick()
            if not ready:
                continue
            chunk = os.read(pipe.fileno(), 1 << 16)
            if not chunk:
                return
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line.decode(errors="replace").strip() for line in lines)
