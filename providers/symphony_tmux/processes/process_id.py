"""Which process is meant, and what a scan saw of it: plain values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """Which process is meant: a pid alone is used again."""

    pid: int
    start: int


@dataclass(frozen=True, slots=True)
class Process:
    """One living process as a scan saw it; marker is its SYMPHONY_ID, empty when it has or shows none."""

    pid: int
    start: int
    parent: int
    session: int
    stopped: bool
    marker: str

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.start)
