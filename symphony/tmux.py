"""Access to an experiment's tmux session from a script, with libtmux.

import symphony.tmux

window = symphony.tmux.session("hello").window("agent-0")  # a libtmux.Window
window.active_pane.send_keys("help")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from symphony.classic import TmuxExperimentSpec as TmuxExperimentSpec
from symphony.classic import TmuxProcessGroupSpec as TmuxProcessGroupSpec
from symphony.classic import TmuxProcessSpec as TmuxProcessSpec
from symphony.classic.cluster import TmuxCluster as TmuxCluster
from symphony.operations import stacks

if TYPE_CHECKING:
    from symphony.operations.tmux_session import Session

__all__ = ["TmuxCluster", "TmuxExperimentSpec", "TmuxProcessGroupSpec", "TmuxProcessSpec", "session"]


def session(name: str) -> Session:
    """Return the libtmux.Session of an experiment; its .window("agent-0") is a process's Window.

    symphony.tmux.session("hello").window("agent-0").active_pane.send_keys("help")

    Args:
        name: The experiment's name or a unique part of it.
    Raises:
        UserError: No experiment has that name, or it does not run in tmux on this machine.
    """
    from symphony.operations import tmux_session

    return tmux_session.session(stacks.find(name))
