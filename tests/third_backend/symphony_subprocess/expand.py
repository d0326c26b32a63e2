"""Plans for this machine and makes the resources of a plan: one of the experiment, one a process."""

from __future__ import annotations

import json
import random
import socket
from pathlib import Path
from typing import Any

import pulumi

from symphony.backends.expand import Components, Context
from symphony.plan.plan import Plan, PlannedProcess
from symphony.plan.services import used_variables, wanted_ports
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec
from symphony_subprocess import folders
from symphony_subprocess.backend import BACKEND
from symphony_subprocess.resources import Experiment, Process

HOST = "127.0.0.1"
_PORTS = "ports.json"
# Below those that the kernel gives to connections.
_RANGE = range(20000, 30000)


def target(spec: ExperimentSpec, context: Context) -> Target:
    wanted = wanted_ports(spec)
    return Target(
        backend=BACKEND.name,
        launched_as=context.launched_as,
        starts="command",
        supports=BACKEND.settings,
        one_host=True,
        host_of=HOST,
        bind_host=HOST,
        ports=_ports(wanted, _known_ports(context.owner)),
        defaults={"start_dir": str(context.folder)},
    )


def image_registry(context: Context) -> str:
    """It runs no images."""
    return ""


def prepare(plan: Plan, spec: ExperimentSpec, context: Context) -> Plan:
    """The ports of the plan are the experiment's from now on."""
    if not context.dry_run:
        folder = folders.experiment(context.owner)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ports = _known_ports(context.owner) | {each.name: each.port for each in plan.services}
        (folder / _PORTS).write_text(json.dumps(ports))
    return plan


def expand(prepared: Plan, context: Context, components: Components) -> dict[str, dict[str, Any]]:
    grace = context.settings.grace
    about: dict[str, Any] = {"owner": context.owner, "name": prepared.launched_as, "grace": grace}
    options = pulumi.ResourceOptions(parent=components.experiment)
    experiment = Experiment(prepared.launched_as, {**about, "services": dict(prepared.service_env)}, options)
    rendered: dict[str, dict[str, Any]] = {}
    for process in prepared.processes:
        inputs = rendered[process.path] = {**about, **_inputs(prepared, process, context.folder)}
        options = pulumi.ResourceOptions(
            parent=components.processes[process.path],
            depends_on=[experiment],
            deleted_with=experiment,
            # Also where the engine is told to replace it.
            delete_before_replace=True,
        )
        Process(process.path, inputs, options)
    return rendered


def manifests(prepared: Plan) -> tuple[()]:
    return ()


def _inputs(plan: Plan, process: PlannedProcess, folder: Path) -> dict[str, Any]:
    return {
        "path": process.path,
        "argv": [*process.command, *process.args],
        "cwd": str(folder / (process.start_dir or "")),
        "env": dict(process.env),
        "services": used_variables(plan, process),
    }


def _known_ports(owner: str) -> dict[str, int]:
    file = folders.experiment(owner) / _PORTS
    return json.loads(file.read_text()) if file.is_file() else {}


def _ports(wanted: dict[str, int | None], known: dict[str, int]) -> dict[str, int]:
    """The port that is asked for, else the one it has, else a free one that is no other experiment's."""
    files = folders.root().glob(f"*/{_PORTS}")
    taken = {port for file in files for port in json.loads(file.read_text()).values()}
    free = (port for port in random.sample(_RANGE, len(_RANGE)) if port not in taken and _is_free(port))
    return {name: port or known.get(name) or next(free) for name, port in wanted.items()}


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex((HOST, port)) != 0
