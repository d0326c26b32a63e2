"""Registers the Slurm resources of a plan: one Allocation, and one Step a process."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import pulumi

from symphony.backends import local_commands
from symphony.backends.expand import Components, Context, Facts
from symphony.backends.slurm import job_size
from symphony.backends.slurm.settings import settings_of, shared_folder
from symphony.backends.slurm.target import target as target
from symphony.plan.plan import Plan, PlannedProcess
from symphony.plan.services import file_variables, wanted_ports
from symphony.spec.experiment import ExperimentSpec
from symphony_slurm import inputs
from symphony_slurm.folder import CONFIGS, SECRETS, Experiment, Folder, Member, Service, folder_of
from symphony_slurm.resources import Allocation, Step


@dataclass(frozen=True)
class Prepared:
    """The inputs of the allocation and of each step, by the path of its process."""

    plan: Plan
    allocation: dict[str, Any]
    steps: dict[str, dict[str, Any]]


def image_registry(context: Context) -> str:
    """Return no registry: this backend runs no images."""
    return ""


def prepare(plan: Plan, spec: ExperimentSpec, context: Context) -> Prepared:
    """Return the inputs of the resources."""
    settings = settings_of(context)
    folder = folder_of(shared_folder(settings), plan.physical_name, context.owner)
    members = {process.path: job_size.member(process, process.group or "") for process in plan.processes}
    fixed = wanted_ports(spec)
    services = {
        each.name: Service(path=each.path, port=fixed.get(each.declared or each.name) or 0)
        for each in plan.services
    }
    experiment = Experiment(
        owner=context.owner,
        name=plan.physical_name,
        configuration=settings.slurm_conf or "",
        grace=settings.grace,
        members=members,
        services=services,
        port_range=spec.port_range,
    )
    options = job_size.options_of(settings, members, folder)
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
        prepared.plan.physical_name,
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
