"""The resource inputs that tmux windows and Slurm steps share: both start processes with launch files."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pulumi

from symphony.backends import local_commands, local_files
from symphony.backends.expand import Components, Context
from symphony.plan.plan import Plan, PlannedProcess
from symphony.plan.services import file_variables
from symphony.spec.experiment import ExperimentSpec
from symphony_dynamic.provider import DynamicResource
from symphony_tmux import experiment_folder


def image_registry(context: Context) -> str:
    """Return no registry: these backends run no images."""
    return ""


def manifests(prepared: object) -> tuple[()]:
    """Return no manifests: these backends have none."""
    return ()


def process_inputs(
    plan: Plan, process: PlannedProcess, start_dir: str, folder: str, files: Path, key: bytes = b""
) -> dict[str, Any]:
    """Return the inputs of a process except secret_env.

    Args:
        plan: The plan.
        process: The process.
        start_dir: The start folder of the process.
        folder: The folder of the project, to which the names of code files are relative.
        files: The folder of the experiment's secret and config files.
        key: The key for the digests of secret_env.
    """
    folders = (str(files / kind) for kind in experiment_folder.KINDS)
    return {
        "path": process.path,
        "argv": None if process.cmds else [*process.command, *process.args],
        "script": list(process.cmds) or None,
        "preamble": list(process.preamble_cmds),
        "cwd": start_dir,
        "env": {**process.env, **file_variables(plan, *folders)},
        "secret_digests": {name: secret.digest(key) for name, secret in process.secret_env.items()},
        "services": dict(process.service_env),
        "inherit": list(plan.inherit),
        "restart_policy": _restart_policy(plan, process),
        **({"code": list(process.code), "folder": folder} if process.code else {}),
    }


def _restart_policy(plan: Plan, process: PlannedProcess) -> str | None:
    """Return the restart policy of the process or its group; None for Never."""
    group = next((group for group in plan.groups if group.name == process.group), None)
    policy = (group.pod if group else process.pod).restart_policy
    return None if policy == "Never" else policy


def files_of(plan: Plan, context: Context) -> dict[str, list[str]]:
    """Return the secret and config files of an experiment."""
    return {
        kind: [str(local_commands.resolve_path(file, context.folder)) for file in getattr(plan, kind)]
        for kind in experiment_folder.KINDS
    }


def changed_files(spec: ExperimentSpec, folder: Path) -> tuple[str, ...]:
    """Return the secret and config files that changed since the experiment in this folder was started."""
    changes: list[str] = []
    for kind, files in (("secret", spec.secrets), ("config", spec.configs)):
        copies_folder = folder / f"{kind}s"
        # A process may have closed its experiment's folder, which `up` opens again.
        with suppress(PermissionError):
            if copies_folder.is_dir():
                copies = {copy.name: experiment_folder.content(copy) for copy in copies_folder.iterdir()}
                changes += local_files.changes(kind, files, copies)
    return tuple(changes)


def experiment_options(plan: Plan, components: Components) -> pulumi.ResourceOptions:
    """Return the options of a session or a job.

    Its resource has the name of the stack, so that another namespace replaces it before processes start.
    """
    # States of earlier versions have it under its namespace.
    return pulumi.ResourceOptions(
        parent=components.experiment, aliases=[pulumi.Alias(name=plan.physical_name)]
    )


def register(
    plan: Plan,
    experiment: pulumi.Resource,
    components: Components,
    kind: type[DynamicResource],
    inputs: Mapping[str, Mapping[str, Any]],
) -> pulumi.ResourceOptions:
    """Register a resource for each process after the experiment's; return the options that they share.

    kind, inputs: the class of the resources, and their inputs except secret_env, by process path.
    """
    # delete_before_replace: otherwise the old process would be mistaken for the new one.
    shared = pulumi.ResourceOptions(
        depends_on=[experiment], deleted_with=experiment, delete_before_replace=True
    )
    resources: dict[str, pulumi.Resource] = {}
    for process in _in_order(plan):
        # If both restart, the dependency restarts first: the dependent must not take its previous end for
        # the awaited one.
        dependencies = [resources[wait.path] for wait in process.waits_for]
        options = pulumi.ResourceOptions(parent=components.processes[process.path], depends_on=dependencies)
        own = without_unset(inputs[process.path])
        if process.secret_env:
            secrets = {name: secret.reveal() for name, secret in process.secret_env.items()}
            own["secret_env"] = pulumi.Output.secret(secrets)
        options = pulumi.ResourceOptions.merge(shared, options)
        resources[process.path] = kind(process.path, own, options)
    return shared


def without_unset(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs that are set; Pulumi's time for a resource grows faster than their number."""
    return {name: value for name, value in inputs.items() if value not in (None, [], {})}


def _in_order(plan: Plan) -> Iterator[PlannedProcess]:
    """Yield every process after its dependencies."""
    dependencies = {process.path: {wait.path for wait in process.waits_for} for process in plan.processes}
    return map(plan.process, TopologicalSorter(dependencies).static_order())
