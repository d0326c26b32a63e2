"""What a backend must offer to reach into processes: commands, files, services."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from symphony.backends.observe import Recorded
from symphony.errors import SymphonyError


class CannotStart(SymphonyError):
    """The command is not there (exit code 127) or cannot be run (126), as shells and `env` say it."""

    def __init__(self, code: int, what: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.exit_code = code


@dataclass(frozen=True)
class Streams:
    """Where a command reads and writes, as open descriptors; terminal: whether a person sits at them."""

    stdin: int = 0
    stdout: int = 1
    stderr: int = 2
    terminal: bool = False


# Told of each piece of a copy how many bytes it has.
Tell = Callable[[int], None]


@dataclass(frozen=True)
class Copied:
    """What was copied; left_out says which entries were not, each with why."""

    files: int = 0
    bytes: int = 0
    left_out: tuple[str, ...] = ()

    def more(self, files: int = 0, size: int = 0, left_out: str = "") -> Copied:
        """The same with that much more."""
        further = (left_out,) if left_out else ()
        return Copied(self.files + files, self.bytes + size, (*self.left_out, *further))


class Forward(Protocol):
    """A port of this machine whose connections go to a service."""

    @property
    def address(self) -> str:
        """host:port on this machine."""
        ...

    def troubles(self) -> Iterator[str]:
        """Waits for ever; yields why connections did not come through, the same thing once."""
        ...


@dataclass(frozen=True)
class Way:
    """How a service is reached from this machine: at an address, else by a forward, opened on demand.

    warning: why no process of the experiment answers there now.
    """

    address: str = ""
    forward: Callable[[], AbstractContextManager[Forward]] | None = None
    warning: str = ""


class Access(Protocol):
    """The part of a backend that reaches into processes: its module `access`. It never loads Pulumi."""

    def execute(self, recorded: Recorded, path: str, words: Sequence[str], streams: Streams) -> int:
        """Run a command in a process to its end; its exit code. CannotStart: there is no such command."""
        ...

    def shell(self, recorded: Recorded, path: str, streams: Streams) -> int:
        """Let a person work in a process until they leave."""
        ...

    def send(self, recorded: Recorded, path: str, source: Path, place: str, tell: Tell) -> Copied:
        """Copy a file or folder of this machine to a place of a process; a relative one begins where it runs.

        An existing folder takes it in under its own name.
        """
        ...

    def fetch(self, recorded: Recorded, path: str, place: str, target: Path, tell: Tell) -> Copied:
        """Copy a file or folder of a process to this machine, as target."""
        ...

    def way(self, recorded: Recorded, service: str, address: str) -> Way:
        """How a service is reached from here; address is where the processes of the experiment find it."""
        ...
