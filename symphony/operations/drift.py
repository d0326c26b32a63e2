"""Finds drift (running processes that differ from the declaration) and leaks (processes without a stack)."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from symphony import paths
from symphony.backends import registry
from symphony.backends.observe import RemoteLister
from symphony.engine import errors, workspace
from symphony.engine.run.events import Finished, Step
from symphony.engine.run.run import PREVIEW_ONLY, Run
from symphony.errors import SymphonyError
from symphony.operations import stacks

# Fields that Kubernetes, and, beginning with __, Pulumi's provider add to objects.
_SERVER_FIELDS = ("status", "metadata.managedFields", "metadata.resourceVersion", "metadata.generation", "__")
_DEADLINE = 120.0
_PRESENT, _ABSENT = "present", "absent"
# States of a process that are not drift, even if the next `up` restarts it: a limit may have stopped it.
_WELL = ("running", "completed", "stopped", "waiting")


@dataclass(frozen=True)
class Drift:
    """A field that differs from its declaration; the field is empty if the object no longer exists.

    Attributes:
        declared: The value of the field in the declaration.
        lives: The value of the field in the running object.
    """

    path: str
    object: str
    field: str
    declared: Any
    lives: Any


@dataclass(frozen=True)
class Leak:
    """Processes with an owner id of this user's state store that belong to no stack.

    Attributes:
        where: This machine, or the context of the kubeconfig.
        remedy: The command that removes them.
    """

    name: str
    where: str
    physical_name: str
    processes: tuple[str, ...]
    remedy: str


def drift(stack: stacks.Stack) -> list[Drift]:
    """Return every field in which running objects differ from their declaration, from a refresh preview.

    Raises:
        UserError: The experiment is not up, or runs elsewhere; the project's virtualenv is missing.
        SymphonyError: Its backend does not answer.
    """
    stack, _ = stacks.running(stack)
    project = workspace.for_stack(stack.name)
    workspace.require_virtualenv(project)  # else Pulumi's language host makes one, which takes minutes
    rows: list[Drift] = []
    ends = time.monotonic() + _DEADLINE
    with Run("refresh", project, stack.name.stack, options=[PREVIEW_ONLY]) as run:
        for event in run:
            if isinstance(event, Finished):
                rows += _step_drift(event.step)
            if time.monotonic() > ends:
                raise SymphonyError(
                    f"the refresh of {stack.display_name} did not end within {_DEADLINE:.0f} s",
                    remedy="Check that its backend answers, and run the command again",
                )
    errors.check(run.outcome)
    return rows


def _step_drift(step: Step) -> Iterator[Drift]:
    """Yield the drift of the resource that a step of the refresh read."""
    if step.type.startswith(("pulumi:", "symphony:")):
        return
    path = stacks.component_path(step.parent) or step.name
    label = f"{step.type.rpartition(':')[2]} {step.name}"
    if step.new_outputs is None:
        yield Drift(path, label, "", _PRESENT, _ABSENT)
        return
    is_ours = step.type.startswith("pulumi-python:")
    declared, live = _flat(step.old_outputs), _flat(step.new_outputs)
    # Fields that others set on a Kubernetes object are not drift, except values that processes read.
    fields = declared if is_ours else _flat(step.old)
    added = [field for field in live if is_content(label, field)]
    for field in dict.fromkeys((*fields, *added)):
        value = live.get(field, _ABSENT)
        if is_ours and field == "status" and str(value).startswith(_WELL):
            continue
        if (is_ours or not field.startswith(_SERVER_FIELDS)) and declared.get(field) != value:
            yield Drift(path, label, field, declared.get(field, _ABSENT), value)


def is_content(label: str, field: str) -> bool:
    """Return whether a field is a variable or file of a ConfigMap or Secret, all of which symphony writes."""
    return label.startswith(("ConfigMap ", "Secret ")) and field.startswith(("data.", "binaryData."))


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """Return nested values by dotted path: `spec.containers[0].image`."""
    if isinstance(value, dict) and value:
        fields = cast("dict[str, Any]", value)
        items = [(f"{path}.{name}" if path else name, item) for name, item in fields.items()]
    elif isinstance(value, list) and value:
        items = [(f"{path}[{number}]", item) for number, item in enumerate(cast("list[Any]", value))]
    else:
        return {path: value} if path else {}
    return {leaf: scalar for name, item in items for leaf, scalar in _flat(item, name).items()}


def leaks() -> tuple[list[Leak], list[str]]:
    """Return the leaks on this machine and in all contexts, and the contexts that do not answer."""
    all_stacks = stacks.every()
    leaked = [
        Leak(
            str(orphan.name),
            paths.host(),
            orphan.recorded.physical_name if orphan.recorded else "",
            tuple(orphan.processes),
            f"symphony delete {orphan.name}",
        )
        for orphan in stacks.orphans(stack.name for stack in all_stacks)
    ]
    owners = {stack.owner for stack in all_stacks if stack.recorded is not None}
    troubles: list[str] = []
    for row in registry.every():
        if not isinstance(row.observer, RemoteLister):
            continue
        for where, owned, remedy in row.observer.list_everywhere():
            if isinstance(owned, SymphonyError):
                troubles.append(f"{where}: {owned.what}")
            elif owned.owner not in owners and owned.owner.endswith(f"#{paths.store_identity()}"):
                name = paths.stack_of(owned.owner)
                leaked.append(Leak(name, where, owned.physical_name, owned.paths, remedy))
    return leaked, troubles
