"""The protocol by which a backend lists what it needs on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from symphony.errors import SymphonyError


@dataclass(frozen=True, slots=True)
class Finding:
    """One prerequisite: whether it is installed, its version, and the command that installs it.

    needed:  required by every experiment; the others are for one backend or for convenience.
    package: the Debian package that `symphony setup` installs for it.
    """

    name: str
    there: bool
    version: str = ""
    place: str = ""
    get: str = ""
    needed: bool = True
    package: str = ""


class Prerequisites(Protocol):
    """The module `prerequisites` of a backend; it never loads Pulumi."""

    def findings(self) -> list[Finding]:
        """Return all prerequisites, without asking a server: users of another backend would wait for it."""
        ...


def guarded(name: str, get: str, look: Callable[[], Finding]) -> Finding:
    """Return the finding of look(), or the error that it raises as one."""
    try:
        return look()
    except SymphonyError as error:
        return Finding(name, False, error.what, error.where, get)
