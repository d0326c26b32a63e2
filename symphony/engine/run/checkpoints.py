"""Decides whether a run may leave out Pulumi's checkpoints, which take most of the time of a large run.

Without checkpoints, the state learns of a run only at its end. If such a run is killed, symphony finds its
processes again by their labels, but a bucket of the same program would be missing from the state. So a run
skips checkpoints while the program registers only resources of symphony; otherwise it runs again with them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from symphony.engine.run.events import Diagnostic
from symphony.engine.state import file_store
from symphony.errors import SymphonyError

VARIABLE = "PULUMI_SKIP_CHECKPOINTS"
# The last words of an error after which Run starts again with checkpoints; the user need not act.
NEEDED = "is only made by a run that keeps checkpoints"
# The components, and the resources of each provider in providers/.
_PROVIDERS = ("symphony_docker", "symphony_slurm", "symphony_tmux")
_OURS = ("symphony:", *(f"pulumi-python:dynamic/{name}:" for name in _PROVIDERS))
# These exist in the state only.
_BOOKKEEPING = ("pulumi:pulumi:Stack", "pulumi:pulumi:StackReference", "pulumi:providers:")
_MANAGED_BY = "app.kubernetes.io/managed-by"


def may_be_skipped(env: Mapping[str, str], name: file_store.StackName) -> bool:
    """Return whether a run may skip checkpoints; the user's setting of the engine's variable wins."""
    return VARIABLE not in env and file_store.is_files() and _holds_only_ours(name)


def were_needed(diagnostics: Iterable[Diagnostic]) -> bool:
    """Return whether a run without checkpoints stopped before it created a foreign resource."""
    return any(event.severity == "error" and NEEDED in event.message for event in diagnostics)


def is_ours(type_: str, inputs: Mapping[str, Any]) -> bool:
    """Return whether a resource belongs to an experiment, or exists in the state only."""
    return type_.startswith((*_OURS, *_BOOKKEEPING)) or _managed_by(inputs) == "symphony"


def _holds_only_ours(name: file_store.StackName) -> bool:
    """Return whether the state has only resources of experiments, pending operations included."""
    try:
        state = file_store.read_state(name)
    except KeyError:
        return True
    except SymphonyError:
        return False
    ours = {resource.urn for resource in state.resources if is_ours(resource.type, resource.inputs)}
    return len(ours) == len(state.resources) and all(
        urn in ours or is_ours(_type_of(urn), {}) for urn in state.pending
    )


def _managed_by(inputs: Mapping[str, Any]) -> Any:
    field: Any = inputs
    for key in ("metadata", "labels", _MANAGED_BY):
        field = cast("Mapping[str, Any]", field).get(key) if isinstance(field, Mapping) else None
    return field


def _type_of(urn: str) -> str:
    """Return the last of the types in `urn:pulumi:stack::project::parent$type::name`."""
    parts = urn.split("::")
    return parts[2].rpartition("$")[2] if len(parts) > 3 else ""
