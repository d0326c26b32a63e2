"""Finds drift (running processes that differ from the declaration) and leaks (processes without a stack)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, cast

from symphony import paths
from symphony.backends import registry
from symphony.backends.observe import RemoteLister
from symphony.engine import errors, workspace
from symphony.errors import SymphonyError
from symphony.operations import stacks

# Fields that Kubernetes adds to objects.
_NOTES = ("status", "metadata.managedFields", "metadata.resourceVersion", "metadata.generation", "__")
_PULUMI = "pulumi:"
_DEADLINE = 120.0
_ABSENT = "absent"
# States in which `up` leaves a process.
_WELL = ("running", "completed", "stopped", "waiting")


@dataclass(frozen=True)
class Drift:
    """A field that differs from its declaration; the field is empty if the object no longer exists."""

    path: str
    object: str
    field: str
    declared: Any
    lives: Any

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Leak:
    """Processes with an owner mark of this user's state store that belong to no stack.

    Attributes:
        where: This machine, or the context of the kubeconfig.
        remedy: The command that removes them.
    """

    name: str
    where: str
    physical_name: str
    processes: tuple[str, ...]
    remedy: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def drift(stack: stacks.Stack) -> list[Drift]:
    """Return every field in which running objects differ from their declaration.

    The engine reads each resource again, and changes nothing.

    Raises:
        UserError: The experiment is not up, or runs elsewhere; the project's virtualenv is missing.
        SymphonyError: Its backend does not answer.
    """
    stack = stacks.ensure_same_location(stack)
    if stack.recorded is None:
        raise stack.not_up()
    place = workspace.for_stack(stack.name)
    workspace.require_virtualenv(place)  # else Pulumi's language host makes one, which takes minutes
    words = ["refresh", "--preview-only", "--json", f"--stack={stack.name}"]
    done = workspace.pulumi(place, words, deadline=_DEADLINE)
    if done.returncode:
        text = "\n".join(filter(None, (done.stderr, *_diagnostics(done.stdout))))
        known = errors.from_text(text, stack=stack.display_name, project=stack.name.project)
        raise SymphonyError(known.what, where=known.where, remedy=known.remedy)
    return [row for step in _steps(done.stdout) for row in _of_step(step)]


def _events(output: str, kind: str) -> Iterator[dict[str, Any]]:
    for line in output.splitlines():
        with suppress(ValueError):
            if event := json.loads(line).get(kind):
                yield event


def _diagnostics(output: str) -> list[str]:
    events = _events(output, "diagnosticEvent")
    return [str(event.get("message")) for event in events if event.get("severity") == "error"]


def _steps(output: str) -> list[dict[str, Any]]:
    """Return what the engine read, from its events."""
    return [event["metadata"] for event in _events(output, "resOutputsEvent")]


def _of_step(step: Mapping[str, Any]) -> Iterator[Drift]:
    before: dict[str, Any] = step.get("old") or {}
    now: dict[str, Any] = step.get("new") or {}
    kind = str(before.get("type") or now.get("type"))
    if kind.startswith((_PULUMI, "symphony:")):
        return
    name = str(step["urn"]).rpartition("::")[2]
    shown, path = f"{kind.rpartition(':')[2]} {name}", _path(str(before.get("parent") or "")) or name
    if not now:
        yield Drift(path, shown, "", "there", _ABSENT)
        return
    is_ours = kind.startswith("pulumi-python:")
    declared, lives = (_flat(state.get("outputs")) for state in (before, now))
    # Fields that others set on a Kubernetes object are not drift.
    fields = declared if is_ours else _flat(before.get("inputs"))
    for field in fields:
        now_has = lives.get(field, _ABSENT)
        if is_ours and field == "status" and str(now_has).startswith(_WELL):
            continue
        if (is_ours or not field.startswith(_NOTES)) and declared.get(field) != now_has:
            yield Drift(path, shown, field, declared.get(field), now_has)


def _path(parent: str) -> str:
    """Return the process or group whose component a resource belongs to."""
    for owner in ("symphony:index:Process::", "symphony:index:ProcessGroup::"):
        _, separator, path = parent.rpartition(owner)
        if separator:
            return path
    return ""


def _flat(facts: Any, above: str = "") -> dict[str, Any]:
    """Return nested values by dotted name: `spec.containers[0].image`."""
    if isinstance(facts, dict) and facts:
        pairs = cast("dict[str, Any]", facts)
        inner = [(f"{above}.{name}" if above else name, fact) for name, fact in pairs.items()]
    elif isinstance(facts, list) and facts:
        inner = [(f"{above}[{number}]", fact) for number, fact in enumerate(cast("list[Any]", facts))]
    else:
        return {above: facts} if above else {}
    return {name: value for field, fact in inner for name, value in _flat(fact, field).items()}


def leaks() -> tuple[list[Leak], list[str]]:
    """Return the leaks on this machine and in all contexts, and the contexts that do not answer."""
    known = stacks.every()
    leaked = [
        Leak(
            str(orphan.name),
            paths.host(),
            _physical_name(orphan),
            tuple(orphan.processes),
            f"symphony delete {orphan.name}",
        )
        for orphan in stacks.orphans(stack.name for stack in known)
    ]
    owners = {stack.owner for stack in known if stack.recorded is not None}
    troubles: list[str] = []
    for row in registry.every():
        if not isinstance(row.observer, RemoteLister):
            continue
        for where, owned, remedy in row.observer.list_everywhere():
            if isinstance(owned, SymphonyError):
                troubles.append(f"{where}: {owned.what}")
            elif owned.owner not in owners and owned.owner.endswith(f"#{paths.store_mark()}"):
                name = paths.stack_of(owned.owner)
                leaked.append(Leak(name, where, owned.physical_name, owned.paths, remedy))
    return leaked, troubles


def _physical_name(stack: stacks.Stack) -> str:
    return stack.recorded.physical_name if stack.recorded else ""
