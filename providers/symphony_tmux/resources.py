"""The Pulumi resources Session and Window; the tmux backend declares them, the provider makes them real.

Subclasses of CustomResource: pulumi.dynamic.Resource raises RecursionError after some hundred resources.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from symphony_tmux.provider import SessionProvider, WindowProvider

SESSION_TYPE = "pulumi-python:dynamic/symphony_tmux:Session"
WINDOW_TYPE = "pulumi-python:dynamic/symphony_tmux:Window"
SESSION_OUTPUTS = ("session_id", "socket", "server_pid", "host", "boot_id", "created")
WINDOW_OUTPUTS = (
    "pane_id",
    "window_id",
    "pid",
    "start_time",
    "boot_id",
    "host",
    "attempt",
    "log",
    "socket",
    "launched",
    "digest",
    "status",
)
# Protocol 4, by reference, no attributes: these bytes lie in the state of every user and must never change.
SESSION_PROVIDER = base64.b64encode(pickle.dumps(SessionProvider(), protocol=4)).decode()
WINDOW_PROVIDER = base64.b64encode(pickle.dumps(WindowProvider(), protocol=4)).decode()


class Session(pulumi.CustomResource):
    """One experiment: a tmux session, files, port leases; deleting it takes down every process in it."""

    name: pulumi.Output[str]
    session_id: pulumi.Output[str]
    socket: pulumi.Output[str]
    server_pid: pulumi.Output[float]
    host: pulumi.Output[str]
    boot_id: pulumi.Output[str]
    created: pulumi.Output[float]

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

    path: pulumi.Output[str]
    pane_id: pulumi.Output[str]
    window_id: pulumi.Output[str]
    pid: pulumi.Output[float]
    start_time: pulumi.Output[float]
    boot_id: pulumi.Output[str]
    host: pulumi.Output[str]
    attempt: pulumi.Output[float]
    log: pulumi.Output[str]
    socket: pulumi.Output[str]
    launched: pulumi.Output[float]
    digest: pulumi.Output[str]
    status: pulumi.Output[str]

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
            "env": env if env is not None else {},
            "services": services if services is not None else {},
            "uses": uses,
            "inherit": inherit,
            "grace": grace,
        }
        super().__init__(WINDOW_TYPE, resource_name, _props(inputs, WINDOW_OUTPUTS, WINDOW_PROVIDER), opts)


def _props(inputs: Mapping[str, Any], outputs: Sequence[str], provider: str) -> dict[str, Any]:
    """A tuple is not a Pulumi list, and an output is only readable when it is named among the properties."""
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in inputs.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return {**dict.fromkeys(outputs), **plain, "__provider": provider}
