"""The protocol of a backend's module `prerequisites`, which lists what it needs on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from symphony.errors import SymphonyError


@dataclass(frozen=True, slots=True)
class Finding:
    """A prerequisite: whether it is installed, its version, and how to install it.

    needed:  whether every experiment requires it; others are for a backend or for convenience.
    package: the Debian package with which `symphony setup` installs it.
    """

    name: str
    there: bool
    version: str = ""
    place: str = ""
    get: str = ""
    needed: bool = True
    package: str = ""


class Prerequisites(Protocol):
    """A backend's module `prerequisites`; it must not import Pulumi."""

    def findings(self) -> list[Finding]:
        """Return all prerequisites without asking a server, for which users of other backends would wait."""
        ...


def guarded(name: str, get: str, look: Callable[[], Finding]) -> Finding:
    """Return the finding of look(), or a finding that shows the error it raises."""
    try:
        return look()
    except SymphonyError as error:
        return Finding(name, False, error.what, error.where, get)
