"""One experiment that is disturbed, its commands, and the oracle: what /proc says that lives of it."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.sandbox import SYMPHONY, Ran, Sandbox, sandbox_in

STACK = "rl"
PROCESSES = 5
# Longer than any command may take here, shorter than one that hangs.
DEADLINE = 60.0
# What ends is given so long to be gone, and what starts to be there.
SETTLED = 15.0
Tally = Mapping[str, int]


@dataclass
class Try:
    """One injection and what came of it; broken: each promise that did not hold, in words."""

    kind: str
    seed: int
    what: str
    orphans: int = 0
    duplicates: int = 0
    lost: int = 0
    longest: float = 0.0
    broken: list[str] = field(default_factory=list[str])

    @property
    def survived(self) -> bool:
        return not (self.orphans or self.duplicates or self.lost or self.broken)

    def row(self) -> dict[str, Any]:
        return asdict(self)


class Trial:
    """A sandbox with one experiment of sleeping processes; every one can be counted from its argv."""

    def __init__(self, sandbox: Sandbox, kind: str, seed: int) -> None:
        self.sandbox, self.kind, self.seed = sandbox, kind, seed
        self.random = random.Random(f"{kind} {seed}")
        # No other process of the machine sleeps so long.
        self.tag = f"{os.getpid()}{seed % 1_000_000:06}{time.monotonic_ns() % 1000:03}"
        self.declared: dict[str, int] = {}
        self.longest = 0.0
        # The passphrase is the file that symphony makes.
        del sandbox.environment["PULUMI_CONFIG_PASSPHRASE"]
        sandbox.config(STACK, grace="1")

    def declare(self, versions: Mapping[str, int]) -> None:
        """The program of the next `up`: path -> version; the first binds a service for the others."""
        self.declared = dict(versions)
        lines = ["with Experiment() as e:"]
        for number, path in enumerate(versions):
            service = 'binds("service")' if number == 0 else 'connects("service")'
            lines.append(f'    e.new_process("{path}", command=["sleep", "{self.argument(path)}"]).{service}')
        self.sandbox.write("\n".join(lines))

    def argument(self, path: str) -> str:
        return f"{86400 + self.declared[path]}.{self.tag}{path.removeprefix('p')}"

    def change(self) -> None:
        """Two processes are other ones, one goes, one comes."""
        paths = list(self.declared)
        changed = self.random.sample(paths[1:], 3)
        versions = {path: version + (path in changed[:2]) for path, version in self.declared.items()}
        del versions[changed[2]]
        self.declare({**versions, f"p{max(int(path[1:]) for path in paths) + 1}": 0})

    def run(self, *words: str, code: int | None = 0, **more: Any) -> Ran:
        """A `symphony` command to its end; AssertionError: a traceback, another exit code, no end in time."""
        began = time.monotonic()
        try:
            return self.sandbox.symphony(*words, code=code, timeout=DEADLINE, **more)
        finally:
            self.longest = max(self.longest, time.monotonic() - began)

    def command(self, verb: str) -> list[str]:
        return [str(SYMPHONY), verb, STACK, "-y"]

    def living(self) -> Tally:
        """argument -> how many processes that sleep for it live; also what nobody declares any more."""
        return Counter(self._sleeping().values())

    def pids(self) -> dict[str, set[int]]:
        """argument -> the processes that sleep for it."""
        result: dict[str, set[int]] = {}
        for pid, argument in self._sleeping().items():
            result.setdefault(argument, set()).add(pid)
        return result

    def _sleeping(self) -> dict[int, str]:
        lines = _command_lines(self.tag)
        return {pid: words[1] for pid, words in lines.items() if words[0] == "sleep"}

    def tagged(self) -> dict[int, str]:
        """pid -> argument of every process that was given it, whatever it has become."""
        lines = _command_lines(self.tag)
        return {pid: next(word for word in words if self.tag in word) for pid, words in lines.items()}

    def judged(self, what: str, *, deleted: bool = False) -> Try:
        """The verdict over what lives now: exactly what is declared, or nothing at all."""
        wanted = set() if deleted else {self.argument(path) for path in self.declared}
        result = self.living()
        until = time.monotonic() + SETTLED
        while time.monotonic() < until and (
            result != dict.fromkeys(wanted, 1) or (deleted and self._left_behind())
        ):
            time.sleep(0.1)
            result = self.living()
        left = self._left_behind() if deleted else []
        verdict = Try(
            self.kind,
            self.seed,
            what,
            orphans=sum(number for argument, number in result.items() if argument not in wanted) + len(left),
            duplicates=sum(number - 1 for argument, number in result.items() if argument in wanted),
            lost=len(wanted - set(result)),
            longest=round(self.longest, 1),
            broken=left,
        )
        self.longest = 0.0
        return verdict

    def _left_behind(self) -> list[str]:
        """What is not of the experiment and should have ended with it: servers, engines, supervisors."""
        groups = {"tmux server": self.sandbox.servers(), "engine": self.sandbox.engines()}
        groups["process"] = [pid for pids in self.sandbox.trees().values() for pid in pids]
        return [f"{name} {pid} is left" for name, pids in groups.items() for pid in pids]

    def broken(self, what: str, error: BaseException) -> Try:
        longest, self.longest = round(self.longest, 1), 0.0
        return Try(self.kind, self.seed, what, longest=longest, broken=[str(error)[:2000]])


@contextmanager
def trial(kind: str, seed: int) -> Iterator[Trial]:
    """A trial that leaves nothing running, in a folder that other users may look into."""
    with tempfile.TemporaryDirectory(prefix="symphony-chaos-") as folder:
        Path(folder).chmod(0o755)
        with sandbox_in(Path(folder)) as sandbox:
            yield Trial(sandbox, kind, seed)


def first_processes() -> dict[str, int]:
    return {f"p{number}": 0 for number in range(PROCESSES)}


def within(seconds: float, true: Callable[[], Any]) -> Any:
    """What it returns as soon as that is true of anything; what it is at the end of that time."""
    until = time.monotonic() + seconds
    while not (result := true()) and time.monotonic() < until:
        time.sleep(0.05)
    return result


def _command_lines(tag: str) -> dict[int, list[str]]:
    """Of every process that lives and was told the tag: a zombie has none."""
    result: dict[int, list[str]] = {}
    needle = tag.encode()
    for folder in Path("/proc").glob("[1-9]*"):
        try:
            raw = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if needle in raw:
            result[int(folder.name)] = raw.decode(errors="replace").rstrip("\0").split("\0")
    return result
