"""The protocol through which a backend runs commands, copies files and reaches services of processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from symphony.backends.observe import Recorded
from symphony.errors import SymphonyError


class CannotStart(SymphonyError):
    """The command does not exist (exit code 127) or cannot be run (126), as in shells and `env`."""

    def __init__(self, code: int, what: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.exit_code = code


class Streams(msgspec.Struct, frozen=True):
    """The open descriptors of a command; terminal: whether they are an interactive terminal."""

    stdin: int = 0
    stdout: int = 1
    stderr: int = 2
    terminal: bool = False


# Called with the number of bytes of each piece of a copy.
OnBytes = Callable[[int], None]


class Copied(msgspec.Struct, frozen=True):
    """The number of files and bytes copied; left_out: entries that were skipped, with the reasons."""

    files: int = 0
    bytes: int = 0
    left_out: tuple[str, ...] = ()

    def more(self, files: int = 0, size: int = 0, left_out: str = "") -> Copied:
        """Return this count with more files, bytes or skipped entries added."""
        further = (left_out,) if left_out else ()
        return Copied(self.files + files, self.bytes + size, (*self.left_out, *further))


class Forward(Protocol):
    """A port of this machine that is forwarded to a service."""

    @property
    def address(self) -> str:
        """The host:port on this machine."""
        ...

    def troubles(self) -> Iterator[str]:
        """Yield the reasons why connections failed, without immediate repetitions; never end."""
        ...


class ServiceRoute(msgspec.Struct, frozen=True):
    """The route to a service from this machine: an address, or a forward to open on demand.

    warning: why no process of the experiment answers at present.
    """

    address: str = ""
    forward: Callable[[], AbstractContextManager[Forward]] | None = None
    warning: str = ""


class Access(Protocol):
    """The module `access` of a backend; it never loads Pulumi."""

    def execute(self, recorded: Recorded, path: str, words: Sequence[str], streams: Streams) -> int:
        """Run a command in a process to its end and return its exit code.

        Raises:
            CannotStart: The command does not exist or cannot be run.
        """
        ...

    def shell(self, recorded: Recorded, path: str, streams: Streams) -> int:
        """Attach this terminal to the window of a process, or to a shell beside it; return the exit code."""
        ...

    def send(self, recorded: Recorded, path: str, source: Path, place: str, on_bytes: OnBytes) -> Copied:
        """Copy a local file or folder to a process; a relative place is relative to its start folder.

        If the place is an existing folder, the copy goes into it under the source's name.
        """
        ...

    def fetch(self, recorded: Recorded, path: str, place: str, target: Path, on_bytes: OnBytes) -> Copied:
        """Copy a file or folder of a process to this machine; `target` is the path of the copy itself."""
        ...

    def route(self, recorded: Recorded, service: str, address: str) -> ServiceRoute:
        """Return the route to a service; address: the address that the processes use."""
        ...
