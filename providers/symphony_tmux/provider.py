"""The resources Session and Window and their dynamic providers, which delegate to sessions.py and windows.py.

The state of every user contains the module path and class names of the providers: never move or rename them.
"""

from __future__ import annotations

from symphony_dynamic.provider import CrudProvider, DynamicResource
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import sessions, windows

_run = Snapshot()


class SessionProvider(CrudProvider[Snapshot]):
    """The dynamic provider of Session."""

    _crud, _run = sessions, _run


class WindowProvider(CrudProvider[Snapshot]):
    """The dynamic provider of Window."""

    _crud, _run = windows, _run


SESSION_PROVIDER = SessionProvider.state_text()
WINDOW_PROVIDER = WindowProvider.state_text()
SESSION_TYPE = "pulumi-python:dynamic/symphony_tmux:Session"
WINDOW_TYPE = "pulumi-python:dynamic/symphony_tmux:Window"


class Session(DynamicResource):
    """An experiment: its tmux session, files and port leases; deleting it ends all its processes.

    Its inputs are the fields of SessionInputs.
    """

    TYPE, PROVIDER = SESSION_TYPE, SESSION_PROVIDER


class Window(DynamicResource):
    """A process: a tmux window that runs either argv (without a shell) or script (shell lines).

    Its inputs are the fields of WindowInputs.
    """

    TYPE, PROVIDER = WINDOW_TYPE, WINDOW_PROVIDER
