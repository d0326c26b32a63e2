"""The protocol by which a backend lists what it needs on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from symphony.errors import SymphonyError


@dataclass(frozen=True, slots=True)
class Finding:
    """One prerequisite: whether it is there, which version, and the command that gets it.

    needed:  without it no experiment runs; the others are for one backend or for comfort.
    package: the Debian package that has it, for `symphony setup` to install.
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
        """Return all of them; no server is asked, since users of another backend would wait for it."""
        ...


def guarded(name: str, get: str, look: Callable[[], Finding]) -> Finding:
    """Return the finding of look(), or the error that it raises as one."""
    try:
        return look()
    except SymphonyError as error:
        return Finding(name, False, error.what, error.where, get)
