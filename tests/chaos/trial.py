"""One experiment under test: its program, its commands, and the check of its processes in /proc."""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.sandbox import SYMPHONY, Ran, Sandbox, sandbox_in

STACK = "rl"
PROCESSES = 5
# Longer than any command takes, shorter than one that hangs.
DEADLINE = 60.0
# How long processes may take to end, and to start.
SETTLED = 15.0
_LOADS = "from symphony.cli.main import main"


@dataclass
class Outcome:
    """One disturbance; `failures` lists the promises that were broken."""

    disturbance: str
    orphans: int = 0
    duplicates: int = 0
    lost: int = 0
    failures: list[str] = field(default_factory=list[str])

    @property
    def survived(self) -> bool:
        return not (self.orphans or self.duplicates or self.lost or self.failures)

    def __str__(self) -> str:
        if self.survived:
            return f"{self.disturbance}: survived"
        counts = f"{self.orphans} orphans, {self.duplicates} duplicates, {self.lost} lost"
        return f"{self.disturbance}: BROKEN: {counts}; {'; '.join(self.failures)}"


class Trial:
    """A sandbox with one experiment of sleeping processes, which differ in their arguments."""

    def __init__(self, sandbox: Sandbox, kind: str, seed: int) -> None:
        self.sandbox = sandbox
        self.random = random.Random(f"{kind} {seed}")
        # No other process of the machine sleeps for so many seconds.
        self.tag = f"{os.getpid()}{seed % 1_000_000:06}{time.monotonic_ns() % 1000:03}"
        self.declared: dict[str, int] = {}
        # Without it, symphony generates the passphrase file, as for a user.
        del sandbox.environment["PULUMI_CONFIG_PASSPHRASE"]
        sandbox.config(STACK, grace="1")

    def declare(self, versions: Mapping[str, int] | None = None) -> None:
        """Write the program: path -> version; the first process binds a service for the others."""
        self.declared = dict(versions or {f"p{number}": 0 for number in range(PROCESSES)})
        lines = ["with Experiment() as e:"]
        for number, path in enumerate(self.declared):
            service = 'connects("service")' if number else 'binds("service")'
            lines.append(f'    e.new_process("{path}", command=["sleep", "{self.argument(path)}"]).{service}')
        self.sandbox.write("\n".join(lines))

    def argument(self, path: str) -> str:
        return f"{86400 + self.declared[path]}.{self.tag}{path.removeprefix('p')}"

    def change(self) -> None:
        """Change two processes, remove one, add one."""
        paths = list(self.declared)
        chosen = self.random.sample(paths[1:], 3)
        versions = {path: version + (path in chosen[:2]) for path, version in self.declared.items()}
        del versions[chosen[2]]
        self.declare({**versions, f"p{max(int(path[1:]) for path in paths) + 1}": 0})

    def phases(self) -> Iterator[tuple[str, str]]:
        """Yield a phase and its verb: an up, an up of a changed program, a delete."""
        self.declare()
        yield "up", "up"
        self.change()
        yield "change", "up"
        yield "delete", "delete"

    def run(self, *words: str, code: int | None = 0) -> Ran:
        """Run a `symphony` command to its end. Raises AssertionError for a traceback, or no end in time."""
        return self.sandbox.symphony(*words, code=code, timeout=DEADLINE)

    def command(self, verb: str) -> list[str]:
        return [str(SYMPHONY), verb, STACK, *(["-y"] if verb != "process" else [])]

    def finish(self, process: subprocess.Popen[str], description: str) -> str:
        """Wait for a disturbed command; return its error output. Raises AssertionError as `run` does."""
        try:
            out, err = process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"{description}: no end within {DEADLINE} s") from None
        # An interrupt while Python still imports the command cannot be handled by symphony.
        assert "Traceback" not in out + err or _LOADS in err, out + err
        return err

    def pids(self) -> dict[str, set[int]]:
        """Return the sleeping processes by argument, also those no longer declared."""
        pids: dict[str, set[int]] = {}
        for pid, words in _command_lines(self.tag).items():
            if words[0] == "sleep":
                pids.setdefault(words[1], set()).add(pid)
        return pids

    def judge(self, disturbance: str, *, deleted: bool = False) -> Outcome:
        """Compare the processes that run with the declared ones, or with none."""
        declared = set() if deleted else {self.argument(path) for path in self.declared}

        def outcome() -> Outcome:
            running = Counter({argument: len(pids) for argument, pids in self.pids().items()})
            left = self._left_behind() if deleted else []
            return Outcome(
                disturbance,
                orphans=sum(count for argument, count in running.items() if argument not in declared),
                duplicates=sum(count - 1 for argument, count in running.items() if argument in declared),
                lost=len(declared - set(running)),
                failures=left,
            )

        within(SETTLED, lambda: outcome().survived)
        return outcome()

    def _left_behind(self) -> list[str]:
        """Name the servers, engines and processes that should have ended with the experiment."""
        groups = {"tmux server": self.sandbox.servers(), "engine": self.sandbox.engines()}
        groups["process"] = [pid for pids in self.sandbox.trees().values() for pid in pids]
        return [f"{name} {pid} is left" for name, pids in groups.items() for pid in pids]


@contextmanager
def new_trial(kind: str, seed: int) -> Iterator[Trial]:
    """Yield a trial; end everything that it started."""
    with (
        tempfile.TemporaryDirectory(prefix="symphony-chaos-") as folder,
        sandbox_in(Path(folder)) as sandbox,
    ):
        yield Trial(sandbox, kind, seed)


def within(seconds: float, condition: Callable[[], Any]) -> Any:
    """Return what `condition` returns as soon as that is true, else at the end of that time."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return answer


def _command_lines(tag: str) -> dict[int, list[str]]:
    """Return the arguments of every process that has the tag in them; a zombie has none."""
    lines: dict[int, list[str]] = {}
    needle = tag.encode()
    for folder in Path("/proc").glob("[1-9]*"):
        try:
            raw = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if needle in raw:
            lines[int(folder.name)] = raw.decode(errors="replace").rstrip("\0").split("\0")
    return lines
