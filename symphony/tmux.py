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
    """Return the libtmux.Session of an experiment.

    Its method window() returns the libtmux.Window of a process.

    Args:
        name: The name of the experiment, or a part of it.

    Raises:
        UserError: The experiment does not exist, several match, or it does not run in tmux here.

    Example:
        symphony.tmux.session("hello").window("agent-0").panes[0].send_keys("help")
    """
    from symphony.operations import tmux_session

    return tmux_session.session(stacks.find(name))
