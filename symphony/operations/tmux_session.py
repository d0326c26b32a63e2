"""libtmux objects of an experiment, for scripts that work in its windows."""

from typing import cast

import libtmux

from symphony import paths
from symphony.errors import UserError
from symphony.operations import stacks


class Session(libtmux.Session):
    """The libtmux.Session of an experiment, with its windows by the names of the processes.

    Example:
        session.window("agent-0")
    """

    def window(self, process: str) -> libtmux.Window:
        """Return the window of a process: session.window("agents/agent-0").

        Raises:
            UserError: There is no such window.
        """
        name = process.replace("/", ":")
        for window in self.windows:
            if window.window_name == name:
                return window
        raise UserError(
            f'no window of {self.session_name} runs "{process}"',
            remedy=f"Its windows: {', '.join(str(window.window_name) for window in self.windows)}",
        )


def session(stack: stacks.Stack) -> Session:
    """Return the session of an experiment; raise UserError if it does not run in tmux on this machine."""
    process = next(iter(stack.processes.values()), None)
    if process is None:
        raise stack.not_up()
    if stack.backend != "tmux":
        what = f"{stack.display_name} runs on {stack.backend}, not on tmux"
        raise UserError(what, remedy="Name an experiment on tmux: `symphony ls` lists them")
    if not stacks.is_here(stack):
        host = stack.recorded.host if stack.recorded else ""
        raise UserError(f"{stack.display_name} runs on {host}", remedy=f"Run the script on {host}")
    server = libtmux.Server(socket_path=str(paths.tmux_socket(str(process["server"]))))
    for candidate in server.sessions:
        if candidate.session_name == process["session"] and candidate.session_id:
            session = Session.from_session_id(server=server, session_id=candidate.session_id)
            return cast("Session", session)
    raise UserError(
        f"{stack.display_name} has no tmux session any more", remedy=f"Run `symphony up {stack.display_name}`"
    )
