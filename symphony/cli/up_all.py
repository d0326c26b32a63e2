"""`symphony up` of a pattern: a command for each stack, four at a time, each shown when it has ended."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Sequence

from symphony.cli import screen
from symphony.engine.errors import Interrupted
from symphony.plan.problems import count

# An engine waits most of the time, and takes 100 MB.
_AT_ONCE = 4
_SYMPHONY = (sys.executable, "-P", "-c", "import sys; from symphony.cli.main import main; sys.exit(main())")


def up_all(names: Sequence[str], dry_run: bool) -> int:
    """The worst exit code; one that fails does not keep the others. Interrupted: the rest is left."""
    from concurrent.futures import ThreadPoolExecutor, as_completed

    if len(names) > 1:
        screen.tell(f"{count(len(names), 'experiment')}, {min(_AT_ONCE, len(names))} at a time.")
    commands, codes = _Commands("--dry-run" if dry_run else "--yes"), dict[str, int]()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        ends = {pool.submit(commands.run, name): name for name in names}

        def show() -> None:
            for end in as_completed([end for end, name in ends.items() if name not in codes]):
                if (ended := end.result()) is not None:
                    codes[ends[end]] = _shown(ended)

        try:
            show()
        except KeyboardInterrupt:
            commands.interrupt()
            show()
            left = sum(1 for name in names if codes.get(name) != 0)
            what = f"up was interrupted, {left} of {count(len(names), 'experiment')} left"
            raise Interrupted(what, remedy="The same command finishes it") from None
    return max(codes.values())


def _shown(ended: subprocess.CompletedProcess[str]) -> int:
    """Print what a command printed; its exit code."""
    if ended.stdout:
        screen.tell(ended.stdout.rstrip("\n"))
    if ended.stderr:
        print(ended.stderr, end="", file=sys.stderr, flush=True)
    return ended.returncode if ended.returncode >= 0 else 1


class _Commands:
    """Runs `symphony up` in processes of its own until it is interrupted."""

    def __init__(self, option: str) -> None:
        self._option = option
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._is_stopped = False

    def run(self, name: str) -> subprocess.CompletedProcess[str] | None:
        """How the one for a stack ended, and what it printed; None: it did not begin."""
        words = [*_SYMPHONY, "up", name, self._option]
        with self._lock:
            if self._is_stopped:
                return None
            # Ctrl-C of the terminal is passed on once, not heard twice, which would mean "at once".
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                process_group=0,
            )
            self._running.add(process)
        out, err = process.communicate()
        with self._lock:
            self._running.discard(process)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def interrupt(self) -> None:
        """Stop those that run, as Ctrl-C would, and begin no more."""
        with self._lock:
            self._is_stopped = True
            for process in self._running:
                process.send_signal(signal.SIGINT)
