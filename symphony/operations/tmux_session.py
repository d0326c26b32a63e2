"""The libtmux objects of an experiment in tmux, for scripts that work in its windows."""

from __future__ import annotations

from typing import cast

import libtmux

from symphony import paths
from symphony.errors import UserError
from symphony.operations import stacks


class Session(libtmux.Session):
    """The libtmux.Session of an experiment, with its windows by the names of the processes.

    session.window("agent-0")
    """

    def window(self, process: str) -> libtmux.Window:
        """The window of a process: session.window("agents/agent-0"). UserError: there is none.

        process: its name, after that of its group and a / where it is in one.
        """
        name = process.replace("/", ":")
        for window in self.windows:
            if window.window_name == name:
                return window
        raise UserError(
            f'no window of {self.session_name} runs "{process}"',
            remedy=f"Its windows: {', '.join(str(each.window_name) for each in self.windows)}",
        )


def session(stack: stacks.Stack) -> Session:
    """The session of an experiment. UserError: it does not run in tmux, on this machine, or at all."""
    facts = next(iter(stack.recorded.processes.values()), None) if stack.recorded else None
    if stack.backend != "tmux" or facts is None:
        raise UserError(f"{stack.shown} has no process in tmux", remedy="Run `symphony ls`")
    if not stacks.is_here(stack):
        raise UserError(f"{stack.shown} runs on another machine", remedy="Run the script there")
    server = libtmux.Server(socket_path=str(paths.tmux_socket(str(facts["server"]))))
    for each in server.sessions:
        if each.session_name == facts["session"] and each.session_id:
            result = Session.from_session_id(server=server, session_id=each.session_id)
            return cast("Session", result)
    raise UserError(f"the tmux session of {stack.shown} is gone", remedy=f"Run `symphony up {stack.shown}`")
