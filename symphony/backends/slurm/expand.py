"""The Slurm backend's `expand`: registers an Allocation, and a Step for each process of a plan."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec

from symphony.backends import launching, local_commands
from symphony.backends.expand import ComponentInputs, Components, Context
from symphony.backends.launching import image_registry as image_registry
from symphony.backends.launching import manifests as manifests
from symphony.backends.slurm import job_size
from symphony.backends.slurm.limits import limits as limits
from symphony.backends.slurm.settings import folder_for, settings_of
from symphony.backends.supervision_declaration import declaration
from symphony.plan.plan import Plan
from symphony.plan.services import fixed_ports
from symphony.spec.experiment import ExperimentSpec
from symphony_slurm import inputs
from symphony_slurm.folder import Experiment, Service, tokens
from symphony_slurm.provider import Allocation, Step


@dataclass(frozen=True)
class Prepared:
    """The resource inputs of the allocation, and of the steps by process path."""

    plan: Plan
    allocation: dict[str, Any]
    steps: dict[str, dict[str, Any]]


def prepare(plan: Plan, spec: ExperimentSpec, context: Context) -> Prepared:
    """Return the inputs of the resources."""
    settings, folder = settings_of(context), folder_for(context)
    members = ((process.path, process, process.group or "") for process in plan.processes)
    shares = job_size.shares_of(members, settings)
    options = job_size.options_of(settings, shares, folder)
    components = job_size.components(options)
    partitions = tuple(map(job_size.partition_of, components)) if len(components) > 1 else ()
    fixed = fixed_ports(spec)
    services = {
        service.name: Service(path=service.path, port=fixed.get(service.declared or service.name) or 0)
        for service in plan.services
    }
    supervision = declaration(
        plan, context.stack, settings.notify, tokens(services), folder=str(context.folder)
    )
    experiment = Experiment(
        owner=context.owner,
        name=plan.physical_name,
        supervision=supervision,
        configuration=settings.slurm_conf or "",
        grace=settings.grace,
        shares=shares,
        services=services,
        port_range=spec.port_range,
        partitions=partitions,
    )
    allocation: dict[str, Any] = {
        "place": str(folder.place),
        "declared": msgspec.json.encode(experiment).decode(),
        "options": options,
        **launching.files_of(plan, context),
    }
    key = local_commands.digest_key() if any(process.secret_env for process in plan.processes) else b""
    # Other sbatch options need another job, so a change of this digest restarts every step.
    asked = hashlib.sha256("\n".join(options).encode()).hexdigest()[:8]
    steps: dict[str, dict[str, Any]] = {}
    for process in plan.processes:
        start = local_commands.resolve_path(process.start_dir or "", context.folder)
        share = shares[process.path]
        # A process that changes to another component of the job moves to another node.
        where = f", partition {share.partition or 'by default'}" if partitions else ""
        # Each is a field of StepInputs; a change of those in inputs.LAUNCHED restarts the process.
        steps[process.path] = {
            **launching.process_inputs(plan, process, str(start), str(context.folder), folder.place, key),
            "place": str(folder.place),
            "owner": context.owner,
            "uses": list(process.uses),
            "share": f"{share}{where}",
            "allocation": asked,
        }
    return Prepared(plan, allocation, steps)


def component_inputs(prepared: Prepared) -> dict[str, ComponentInputs]:
    """Return the inputs that each process's component has besides its plan, by path."""
    shared = ("services", "secret_digests", "allocation")
    return {
        path: {"fingerprint": inputs.fingerprint(step), **{name: step[name] for name in shared}}
        for path, step in prepared.steps.items()
    }


def expand(prepared: Prepared, context: Context, components: Components) -> None:
    """Register the allocation, and a step for each process."""
    options = launching.experiment_options(prepared.plan, components)
    allocation = Allocation(context.stack, prepared.allocation, options)
    launching.register(prepared.plan, allocation, components, Step, prepared.steps)
