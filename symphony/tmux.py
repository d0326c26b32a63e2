"""Work in the tmux session of an experiment from a script, with libtmux; also the old home of TmuxCluster.

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
    """Return the libtmux.Session of an experiment, whose .window("agent-0") is the Window of a process.

    symphony.tmux.session("hello").window("agent-0").active_pane.send_keys("help")

    name: of the experiment, or a part of it.
    UserError: there is no such experiment, or it does not run in tmux on this machine.
    """
    from symphony.operations import tmux_session

    return tmux_session.session(stacks.find(name))
