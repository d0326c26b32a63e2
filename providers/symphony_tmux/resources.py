"""The Pulumi resources Session and Window; the tmux backend declares them, the provider makes them real.

Subclasses of CustomResource: pulumi.dynamic.Resource raises RecursionError after some hundred resources.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import pulumi

from symphony_tmux.provider import SessionProvider, WindowProvider

SESSION_TYPE = "pulumi-python:dynamic/symphony_tmux:Session"
WINDOW_TYPE = "pulumi-python:dynamic/symphony_tmux:Window"
# Those a program may want to read; the state holds all. Each costs the program 0.1 ms a resource.
SESSION_OUTPUTS = ("session_id", "socket")
WINDOW_OUTPUTS = ("pane_id", "pid", "attempt", "log")
# Protocol 4, by reference, no attributes: these bytes lie in the state of every user and must never change.
SESSION_PROVIDER = base64.b64encode(pickle.dumps(SessionProvider(), protocol=4)).decode()
WINDOW_PROVIDER = base64.b64encode(pickle.dumps(WindowProvider(), protocol=4)).decode()


class Session(pulumi.CustomResource):
    """One experiment: a tmux session, files, port leases; deleting it takes down every process in it."""

    if TYPE_CHECKING:  # the SDK evaluates annotations that it can see once a resource
        name: pulumi.Output[str]
        session_id: pulumi.Output[str]
        socket: pulumi.Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        name: pulumi.Input[str],
        owner: pulumi.Input[str],
        processes: pulumi.Input[Sequence[pulumi.Input[str]]],
        server: pulumi.Input[str] = "default",
        grace: pulumi.Input[float] = 5,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {"name": name, "owner": owner, "server": server, "processes": processes, "grace": grace}
        super().__init__(SESSION_TYPE, resource_name, _props(inputs, SESSION_OUTPUTS, SESSION_PROVIDER), opts)


class Window(pulumi.CustomResource):
    """One process: a tmux window that runs argv (no shell) or script (shell lines); one of the two."""

    if TYPE_CHECKING:
        path: pulumi.Output[str]
        pane_id: pulumi.Output[str]
        pid: pulumi.Output[float]
        attempt: pulumi.Output[float]
        log: pulumi.Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        session: pulumi.Input[str],
        owner: pulumi.Input[str],
        path: pulumi.Input[str],
        argv: pulumi.Input[Sequence[pulumi.Input[str]]] | None = None,
        script: pulumi.Input[Sequence[pulumi.Input[str]]] | None = None,
        preamble: pulumi.Input[Sequence[pulumi.Input[str]]] = (),
        cwd: pulumi.Input[str] = "",
        env: pulumi.Input[Mapping[str, pulumi.Input[str]]] | None = None,
        services: pulumi.Input[Mapping[str, pulumi.Input[str]]] | None = None,
        uses: pulumi.Input[Sequence[pulumi.Input[str]]] = (),
        inherit: pulumi.Input[Sequence[pulumi.Input[str]]] = (),
        server: pulumi.Input[str] = "default",
        grace: pulumi.Input[float] = 5,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs: dict[str, Any] = {
            "session": session,
            "server": server,
            "owner": owner,
            "path": path,
            "argv": argv,
            "script": script,
            "preamble": preamble,
            "cwd": cwd,
            "env": env or None,
            "services": services or None,
            "uses": uses,
            "inherit": inherit,
            "grace": grace,
        }
        super().__init__(WINDOW_TYPE, resource_name, _props(inputs, WINDOW_OUTPUTS, WINDOW_PROVIDER), opts)


def _props(inputs: Mapping[str, Any], outputs: Sequence[str], provider: str) -> dict[str, Any]:
    """What is not given is left out; an output can only be read when it is named among the properties."""
    given = {key: _plain(value) for key, value in inputs.items() if value is not None and value != ()}
    return {**dict.fromkeys(outputs), **given, "__provider": provider}


def _plain(value: Any) -> Any:
    """Pulumi knows no tuples."""
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
