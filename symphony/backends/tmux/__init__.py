"""The tmux backend: an experiment is a session, a process is a window, services are ports of this machine."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from symphony.backends.access import Access
    from symphony.backends.expand import Expander
    from symphony.backends.observe import Observer
    from symphony.backends.registry import Prerequisites
    from symphony.backends.tmux import access, expand, observe, prerequisites

    _MODULES: tuple[Expander, Observer, Access, Prerequisites] = (expand, observe, access, prerequisites)
