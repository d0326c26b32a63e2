"""The resources Session and Window and their dynamic providers, which delegate to sessions.py and windows.py.

The state of every user contains the module path and class names of the providers: never move or rename them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pulumi

from symphony.paths import DEFAULT_SERVER
from symphony_dynamic.provider import CrudProvider
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


# Not pulumi.dynamic.Resource, which raises RecursionError after some hundred resources.
class Session(pulumi.CustomResource):
    """An experiment: its tmux session, files and port leases; deleting it ends all its processes.

    Its inputs are the fields of SessionInputs.
    """

    def __init__(
        self, resource_name: str, opts: pulumi.ResourceOptions | None = None, **inputs: pulumi.Input[Any]
    ) -> None:
        super().__init__(SESSION_TYPE, resource_name, _props(inputs, SESSION_PROVIDER), opts)


class Window(pulumi.CustomResource):
    """A process: a tmux window that runs either argv (without a shell) or script (shell lines).

    Its inputs are the fields of WindowInputs.
    """

    def __init__(
        self,
        resource_name: str,
        opts: pulumi.ResourceOptions | None = None,
        *,
        secret_env: pulumi.Input[Mapping[str, pulumi.Input[str]]] | None = None,
        **inputs: pulumi.Input[Any],
    ) -> None:
        if secret_env:
            inputs["secret_env"] = pulumi.Output.secret(secret_env)
        super().__init__(WINDOW_TYPE, resource_name, _props(inputs, WINDOW_PROVIDER), opts)


def _props(inputs: Mapping[str, Any], provider: str) -> dict[str, Any]:
    """Return the properties that are set; Pulumi's time for a resource grows faster than their number."""
    inputs = {"server": DEFAULT_SERVER, "grace": 5, **inputs}
    set_inputs = {name: _plain(value) for name, value in inputs.items() if value not in (None, (), {})}
    return {**set_inputs, "__provider": provider}


def _plain(value: Any) -> Any:
    """Convert a tuple to a list: Pulumi does not accept tuples."""
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
