"""Decides whether a run may leave out the checkpoints, the most of the time of a large one.

guard/sitecustomize.py says why, and sees to it that the program of such a run makes nothing but experiments.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from symphony.engine.run.events import Diagnostic
from symphony.engine.state import file_store
from symphony.engine.tuning.guard import sitecustomize as guard
from symphony.errors import SymphonyError

VARIABLE = "PULUMI_SKIP_CHECKPOINTS"


def holds_only_ours(name: file_store.StackName) -> bool:
    """Whether the recorded state has nothing but experiments in it, begun operations included."""
    try:
        state = file_store.read(name)
    except KeyError:
        return True
    except SymphonyError:
        return False
    known = {resource.urn for resource in state.resources if guard.is_ours(resource.type, resource.inputs)}
    return len(known) == len(state.resources) and all(
        urn in known or guard.is_ours(_type_of(urn), {}) for urn in state.pending
    )


def guarded(env: Mapping[str, str], *, skip: bool) -> dict[str, str]:
    """The environment of an engine with the guard in it; skip: without checkpoints, unless the user said."""
    path = [guard.FOLDER, *filter(None, [env.get("PYTHONPATH")])]
    result = {**env, "PYTHONPATH": os.pathsep.join(path)}
    if skip and VARIABLE not in env:
        result |= {VARIABLE: "true", guard.GUARDED: "true"}
    return result


def kept(env: Mapping[str, str]) -> dict[str, str]:
    """The same with checkpoints."""
    return {name: value for name, value in env.items() if name not in (VARIABLE, guard.GUARDED)}


def were_needed(diagnostics: Iterable[Diagnostic]) -> bool:
    """Whether a run without them ended at something that is not ours, before it was made."""
    return any(each.severity == "error" and guard.NEEDS_CHECKPOINTS in each.message for each in diagnostics)


def _type_of(urn: str) -> str:
    """The last of the types in `urn:pulumi:stack::project::parent$type::name`."""
    parts = urn.split("::")
    return parts[2].rpartition("$")[2] if len(parts) > 3 else ""
