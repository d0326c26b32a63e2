"""Gets what symphony needs on this machine and says what it got."""

from __future__ import annotations

from dataclasses import dataclass

from symphony.engine import binary, setup, tmux
from symphony.engine.subprocess_progress import Report


@dataclass(frozen=True, slots=True)
class Ready:
    """One thing that is there now."""

    name: str
    version: str
    place: str


def get_everything(report: Report) -> list[Ready]:
    """The engine and tmux, got if they were missing."""
    tmux_version = tmux.ensure(report)
    engine = setup.engine(report)
    engine_version = ".".join(map(str, binary.version(engine)))
    return [Ready("tmux", tmux_version, ""), Ready("pulumi", engine_version, str(engine.pulumi))]
