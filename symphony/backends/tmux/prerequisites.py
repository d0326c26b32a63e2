"""The tmux backend's `prerequisites`: tmux, and perl to supervise processes."""

import shutil

from symphony.backends.registry import Finding, finding_or_error
from symphony_tmux.tmux import program


def findings() -> list[Finding]:
    return [_tmux(), _perl()]


def _tmux() -> Finding:
    place = shutil.which("tmux")
    if place is None:
        return Finding("tmux", False, get=program.install_step(), package="tmux")
    return finding_or_error("tmux", program.install_step(), lambda: _tmux_at(place))


def _tmux_at(place: str) -> Finding:
    version = program.version()
    recent = program.is_recent(version)
    return Finding(
        "tmux", recent, version if recent else f"{version}, too old", place, program.install_step()
    )


def _perl() -> Finding:
    place = shutil.which("perl") or ""
    get = "install perl: without it, tmux supports no restart policy, order or end, and rotates no log"
    return Finding("perl (optional)", bool(place), place=place, get=get, needed=False)
