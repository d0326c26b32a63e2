"""The row of tmux: an experiment is a session, a process a window, a service a port of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symphony.backends.registry import Backend

if TYPE_CHECKING:
    from symphony.backends.access import Access
    from symphony.backends.expand import Expander
    from symphony.backends.observe import Observer
    from symphony.backends.prerequisites import Prerequisites
    from symphony.backends.tmux import access, expand, observe, prerequisites

    _DOORS: tuple[Expander, Observer, Access, Prerequisites] = (expand, observe, access, prerequisites)

BACKEND = Backend(
    "tmux", "symphony.backends.tmux", local=True, cluster="symphony.classic.cluster:TmuxCluster"
)
