"""Renders a plan as the inputs of the tmux provider's resources, as pure functions."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from symphony.backends import launching
from symphony.plan.plan import Plan, PlannedProcess, Wait
from symphony.plan.services import used_variables
from symphony.supervision import Declaration
from symphony_tmux import gpus, names


def session(
    plan: Plan,
    owner: str,
    server: str,
    grace: float,
    fixed_ports: Sequence[str] = (),
    port_range: tuple[int, int] | None = None,
    supervision: Declaration | None = None,
) -> dict[str, Any]:
    """Return the inputs of the experiment's session."""
    supervisors = [names.SUPERVISOR] if supervision is not None else []
    return {
        "name": plan.physical_name,
        "owner": owner,
        "server": server,
        "processes": sorted([*(process.path for process in plan.processes), *supervisors]),
        "services": dict(plan.service_env),
        "ports": {service.declared or service.name: service.port for service in plan.services},
        "fixed_ports": list(fixed_ports),
        "port_range": list(port_range) if port_range else None,
        "secrets": list(plan.secrets),
        "configs": list(plan.configs),
        "grace": grace,
        **({"supervision": msgspec.to_builtins(supervision)} if supervision is not None else {}),
    }


def window(
    plan: Plan,
    process: PlannedProcess,
    session: Mapping[str, Any],
    start_dir: str,
    folder: str,
    files: Path,
    key: bytes = b"",
) -> dict[str, Any]:
    """Return the inputs of a process's window except secret_env; see launching.process."""
    inputs = launching.process(plan, process, start_dir, folder, files, key)
    return {
        **inputs,
        **{name: session[name] for name in ("server", "owner", "grace")},
        "session": session["name"],
        "env": {**inputs["env"], **_gpus(process)},
        "services": used_variables(plan, process),
        "waits_for": [_set_fields(wait) for wait in process.waits_for],
    }


def supervisor(session: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Return the inputs of the window of the experiment's supervisor."""
    arguments = (session["server"], session["name"], session["owner"])
    return {
        **{name: session[name] for name in ("server", "owner", "grace")},
        "session": session["name"],
        "path": names.SUPERVISOR,
        "argv": [sys.executable, "-P", "-m", "symphony_tmux.supervisor", *arguments],
        "cwd": folder,
        "restart_policy": "Always",
    }


def _set_fields(wait: Wait) -> dict[str, Any]:
    """Return the fields of a wait that are set; states of older versions lack the others."""
    return {name: field for name, field in asdict(wait).items() if field not in (None, False)}


def _gpus(process: PlannedProcess) -> dict[str, str]:
    """Return the variable that makes a process wait for GPUs of this machine."""
    count = process.resource_limit.gpu
    return {gpus.VARIABLE: str(count)} if count else {}
