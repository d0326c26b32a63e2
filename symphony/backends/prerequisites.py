"""What a backend needs on this machine, and the values it answers with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from symphony.errors import SymphonyError


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing: is it there, which one, and the one command that gets it when not.

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
    """The part of a backend that looks for what it needs here; it never loads Pulumi."""

    def findings(self) -> list[Finding]:
        """All of it; nothing far away is asked, for who only uses another backend would wait for it."""
        ...


def guarded(name: str, get: str, look: Callable[[], Finding]) -> Finding:
    """What look() finds; what it raises is a finding as well."""
    try:
        return look()
    except SymphonyError as error:
        return Finding(name, False, error.what, error.where, get)
