"""Registers the Slurm resources of a plan: one Allocation, and one Step a process."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

import msgspec
import pulumi

from symphony.backends import local_commands
from symphony.backends.expand import Components, Context, Facts
from symphony.backends.slurm.settings import Settings, settings_of, shared_folder
from symphony.backends.slurm.target import target as target
from symphony.placement.quantities import amount
from symphony.plan.plan import Plan, PlannedProcess
from symphony.plan.services import file_variables, wanted_ports
from symphony.spec.experiment import ExperimentSpec
from symphony_slurm import inputs, placement
from symphony_slurm.folder import CONFIGS, SECRETS, Experiment, Folder, Member, Service, folder_of
from symphony_slurm.resources import Allocation, Step

_MIB = 1 << 20


@dataclass(frozen=True)
class Prepared:
    """The inputs of the allocation and of each step, by the path of its process."""

    plan: Plan
    allocation: dict[str, Any]
    steps: dict[str, dict[str, Any]]


def image_registry(context: Context) -> str:
    """It runs no images."""
    return ""


def prepare(plan: Plan, spec: ExperimentSpec, context: Context) -> Prepared:
    """Return the inputs of the resources."""
    settings = settings_of(context)
    folder = folder_of(shared_folder(settings), plan.launched_as, context.owner)
    members = {process.path: _member(process) for process in plan.processes}
    fixed = wanted_ports(spec)
    services = {
        each.name: Service(path=each.path, port=fixed.get(each.declared or each.name) or 0)
        for each in plan.services
    }
    experiment = Experiment(
        owner=context.owner,
        name=plan.launched_as,
        configuration=settings.slurm_conf or "",
        grace=settings.grace,
        members=members,
        services=services,
        port_range=spec.port_range,
    )
    options = options_of(settings, members, folder)
    allocation: dict[str, Any] = {
        "folder": str(folder.place),
        "declared": msgspec.json.encode(experiment).decode(),
        "options": options,
    }
    for kind in (SECRETS, CONFIGS):
        allocation[kind] = [
            str(local_commands.resolved(file, context.folder)) for file in getattr(plan, kind)
        ]
    key = local_commands.digest_key() if any(each.secret_env for each in plan.processes) else b""
    asked = hashlib.sha256("\n".join(options).encode()).hexdigest()[:8]
    steps = {
        process.path: _step(plan, process, context, folder, members[process.path], asked, key)
        for process in plan.processes
    }
    return Prepared(plan, allocation, steps)


def facts(prepared: Prepared) -> dict[str, Facts]:
    """Return what each component tells beside its plan."""
    shared = ("services", "secret_digests", "allocation")
    return {
        path: {"fingerprint": inputs.fingerprint(step), **{name: step[name] for name in shared}}
        for path, step in prepared.steps.items()
    }


def expand(prepared: Prepared, context: Context, components: Components) -> None:
    """Register the allocation, and a step for each process."""
    allocation = Allocation(
        prepared.plan.launched_as,
        prepared.allocation,
        pulumi.ResourceOptions(parent=components.experiment),
    )
    for process in prepared.plan.processes:
        step = dict(prepared.steps[process.path])
        if process.secret_env:
            revealed = {name: secret.reveal() for name, secret in process.secret_env.items()}
            step["secret_env"] = pulumi.Output.secret(revealed)
        options = pulumi.ResourceOptions(
            parent=components.processes[process.path],
            depends_on=[allocation],
            deleted_with=allocation,
            delete_before_replace=True,
        )
        Step(process.path, step, options)


def manifests(prepared: Prepared) -> tuple[()]:
    """Slurm has no manifests."""
    return ()


def options_of(settings: Settings, members: Mapping[str, Member], folder: Folder) -> list[str]:
    """Return the options of sbatch: those of the job that runs where it holds what is declared now."""
    named = {
        "partition": settings.partition,
        "account": settings.account,
        "qos": settings.qos,
        "time": settings.time,
        "constraint": settings.constraint,
        "nodes": settings.nodes,
        "ntasks-per-node": 1,
    }
    fixed = [f"--{name}={value}" for name, value in named.items() if value]
    gpus, cpus, memory, _ = placement.needed(members, settings.nodes)
    sizes = {"cpus-per-task": max(1, ceil(cpus)), "mem": memory, "gpus": gpus}
    now = folder.options()
    if now is not None and _rest(now) == [*fixed, *settings.sbatch_options]:
        had = _sizes(now)
        if all(had[name] >= size for name, size in sizes.items()):
            return list(now)
    return [*fixed, *_written(sizes), *settings.sbatch_options]


def _written(sizes: Mapping[str, int]) -> list[str]:
    gpus = [f"--gres=gpu:{sizes['gpus']}"] if sizes["gpus"] else []
    memory = [f"--mem={sizes['mem']}M"] if sizes["mem"] else []
    return [f"--cpus-per-task={sizes['cpus-per-task']}", *memory, *gpus]


def _sizes(options: Sequence[str]) -> dict[str, int]:
    found = dict.fromkeys(("cpus-per-task", "mem", "gpus"), 0)
    for option in options:
        name, _, value = option.removeprefix("--").partition("=")
        if option.startswith("--gres=gpu:"):
            found["gpus"] = int(value.rpartition(":")[2])
        elif name in found:
            found[name] = int(value.removesuffix("M"))
    return found


def _rest(options: Sequence[str]) -> list[str]:
    sizes = set(_written(_sizes(options)))
    return [option for option in options if option not in sizes]


def _member(process: PlannedProcess) -> Member:
    request, limit = process.resource_request, process.resource_limit
    cpus, memory = amount(request.cpu or 0) or 0, amount(request.memory or 0) or 0
    return Member(
        cpus=float(cpus), memory=ceil(memory / _MIB), gpus=limit.gpu or 0, group=process.group or ""
    )


def _step(
    plan: Plan,
    process: PlannedProcess,
    context: Context,
    folder: Folder,
    member: Member,
    allocation: str,
    key: bytes,
) -> dict[str, Any]:
    """Return the inputs of a process's step except secret_env; key: that of its digests."""
    files = file_variables(plan, str(folder.place / SECRETS), str(folder.place / CONFIGS))
    step: dict[str, Any] = {
        "folder": str(folder.place),
        "owner": context.owner,
        "path": process.path,
        "argv": [] if process.cmds else [*process.command, *process.args],
        "script": list(process.cmds),
        "preamble": list(process.preamble_cmds),
        "cwd": str(local_commands.resolved(process.start_dir or "", context.folder)),
        "env": {**process.env, **files},
        "secret_digests": {name: each.digest(key) for name, each in process.secret_env.items()},
        "services": dict(process.service_env),
        "uses": list(process.uses),
        "inherit": sorted(plan.inherit),
        "restart_policy": _restart_policy(plan, process),
        "waits_for": [
            {**asdict(wait), "services": list(plan.process(wait.path).binds)} for wait in process.waits_for
        ],
        "share": f"{member.cpus:g} cpu, {member.gpus} gpu",
        "allocation": allocation,
    }
    code = {"code": list(process.code), "project": str(context.folder)} if process.code else {}
    return {**step, **code}


def _restart_policy(plan: Plan, process: PlannedProcess) -> str:
    group = next((group for group in plan.groups if group.name == process.group), None)
    return (group.pod if group else process.pod).restart_policy or "Never"
