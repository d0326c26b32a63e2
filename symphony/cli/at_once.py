"""Runs a command for several experiments in parallel, in a process for each: `symphony up 'sweep.*'`."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from symphony.cli import screen
from symphony.engine.errors import Interrupted
from symphony.plan.problems import count

# An engine takes 100 MB and mostly waits.
_AT_ONCE = 4
SYMPHONY = (sys.executable, "-P", "-c", "import sys; from symphony.cli.main import main; sys.exit(main())")


def run_all(verb: str, names: Sequence[str], arguments: Sequence[str], *, as_json: bool = False) -> int:
    """Run a command such as "up" for each experiment, and print the output of each when it ends.

    A failure does not stop the others. Return the highest exit code.

    Raises:
        Interrupted: By Ctrl-C, which is passed to the running commands; no further command starts.
    """
    if len(names) > 1 and not as_json:
        screen.tell(f"{count(len(names), 'experiment')}, {min(_AT_ONCE, len(names))} at a time.")
    options = [*arguments, *(["--json"] if as_json else [])]
    commands, codes, facts = _Commands(), dict[str, int](), list[Any]()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        ends = {pool.submit(commands.run, [verb, name, *options]): name for name in names}

        def collect() -> None:
            for end in as_completed([end for end, name in ends.items() if name not in codes]):
                if (ended := end.result()) is not None:
                    codes[ends[end]] = ended.returncode if ended.returncode >= 0 else 1
                    _print(ended, facts if as_json else None)

        try:
            collect()
        except KeyboardInterrupt:
            commands.interrupt()
            collect()
            left = sum(1 for name in names if codes.get(name) != 0)
            if left:
                what = f"{verb} was interrupted, {left} of {count(len(names), 'experiment')} left"
                raise Interrupted(what, remedy="Run the same command again to finish") from None
    if as_json:
        screen.show_json(facts)
    return max(codes.values())


def _print(ended: subprocess.CompletedProcess[str], facts: list[Any] | None) -> None:
    if facts is None and ended.stdout:
        screen.tell(ended.stdout.rstrip("\n"))
    elif facts is not None and ended.stdout:
        facts.append(json.loads(ended.stdout))
    if ended.stderr:
        print(ended.stderr, end="", file=sys.stderr, flush=True)


class _Commands:
    """The running commands, which can be interrupted together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._is_stopped = False

    def run(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
        """Run a command to its end; None if it did not start."""
        with self._lock:
            if self._is_stopped:
                return None
            # In a process group of its own, which gets no Ctrl-C from the terminal: interrupt() sends it, and
            # a second SIGINT would kill the engine of the command.
            process = subprocess.Popen(
                [*SYMPHONY, *arguments],
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
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def interrupt(self) -> None:
        """Interrupt running commands, and start no more."""
        with self._lock:
            self._is_stopped = True
            for process in self._running:
                process.send_signal(signal.SIGINT)
