"""The Pulumi resources Session and Window; the tmux backend declares them, the provider makes them real.

Subclasses of CustomResource: pulumi.dynamic.Resource raises RecursionError after some hundred resources.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pulumi

from symphony.paths import DEFAULT_SERVER
from symphony_tmux.provider import SessionProvider, WindowProvider

SESSION_TYPE = "pulumi-python:dynamic/symphony_tmux:Session"
WINDOW_TYPE = "pulumi-python:dynamic/symphony_tmux:Window"
# Protocol 4, by reference, no attributes: these bytes lie in the state of every user and must never change.
SESSION_PROVIDER = base64.b64encode(pickle.dumps(SessionProvider(), protocol=4)).decode()
WINDOW_PROVIDER = base64.b64encode(pickle.dumps(WindowProvider(), protocol=4)).decode()


class Session(pulumi.CustomResource):
    """One experiment: a tmux session, files, port leases; deleting it takes down every process in it.

    services:    the variables that all its processes see.
    ports:       the port of each service; one that was leased to another meanwhile is another in the outputs.
    fixed_ports: the services that can have no other port. port_range: from which others are chosen.
    secrets, configs: paths of files that are copied into its folders.
    """

    def __init__(
        self,
        resource_name: str,
        *,
        name: pulumi.Input[str],
        owner: pulumi.Input[str],
        processes: pulumi.Input[Sequence[pulumi.Input[str]]],
        services: pulumi.Input[Mapping[str, pulumi.Input[str]]] | None = None,
        ports: pulumi.Input[Mapping[str, pulumi.Input[int]]] | None = None,
        fixed_ports: pulumi.Input[Sequence[pulumi.Input[str]]] = (),
        port_range: pulumi.Input[Sequence[pulumi.Input[int]]] | None = None,
        secrets: pulumi.Input[Sequence[pulumi.Input[str]]] = (),
        configs: pulumi.Input[Sequence[pulumi.Input[str]]] = (),
        server: pulumi.Input[str] = DEFAULT_SERVER,
        grace: pulumi.Input[float] = 5,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs: dict[str, Any] = {
            "name": name,
            "owner": owner,
            "server": server,
            "processes": processes,
            "services": services or None,
            "ports": ports or None,
            "fixed_ports": fixed_ports,
            "port_range": port_range,
            "secrets": secrets,
            "configs": configs,
            "grace": grace,
        }
        super().__init__(SESSION_TYPE, resource_name, _props(inputs, SESSION_PROVIDER), opts)


class Window(pulumi.CustomResource):
    """One process: a tmux window that runs argv (no shell) or script (shell lines); one of the two.

    services:       the variables of those it uses; a change of them starts it again.
    secret_env:     variables of which no output tells and a change is not noticed.
    secret_digests: what stands for their values; a change starts it again.
    waits_for:      what it waits for, in the fields of hold.Wait; a change of them restarts nothing.
    """

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
        secret_env: pulumi.Input[Mapping[str, pulumi.Input[str]]] | None = None,
        secret_digests: pulumi.Input[Mapping[str, pulumi.Input[str]]] | None = None,
        services: pulumi.Input[Mapping[str, pulumi.Input[str]]] | None = None,
        inherit: pulumi.Input[Sequence[pulumi.Input[str]]] = (),
        restart_policy: pulumi.Input[str] | None = None,
        waits_for: pulumi.Input[Sequence[pulumi.Input[Mapping[str, Any]]]] = (),
        server: pulumi.Input[str] = DEFAULT_SERVER,
        grace: pulumi.Input[float] = 5,
        code: pulumi.Input[Sequence[pulumi.Input[str]]] = (),
        folder: pulumi.Input[str] | None = None,
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
            "secret_env": pulumi.Output.secret(secret_env) if secret_env else None,
            "secret_digests": secret_digests or None,
            "services": services or None,
            "inherit": inherit,
            "restart_policy": restart_policy,
            "waits_for": waits_for,
            "grace": grace,
            "code": code,
            "folder": folder,
        }
        super().__init__(WINDOW_TYPE, resource_name, _props(inputs, WINDOW_PROVIDER), opts)


def _props(inputs: Mapping[str, Any], provider: str) -> dict[str, Any]:
    """Return the properties that are set; each one more costs the program more than linear time."""
    given = {key: _plain(value) for key, value in inputs.items() if value is not None and value != ()}
    return {**given, "__provider": provider}


def _plain(value: Any) -> Any:
    """Return a list for a tuple, which Pulumi does not know."""
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
