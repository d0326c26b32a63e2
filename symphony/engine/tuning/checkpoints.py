"""Whether a run may leave out the checkpoints, the most of the time of a large one; run.py and plan.py ask.

Without them the state learns of a run at its end only. What a killed run made of ours is found again by its
mark, but a bucket that the same program made would be in no state: they are left out only where all is ours.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping
from typing import Any, cast

from symphony.engine import workspace as workspaces
from symphony.engine.state import file_store
from symphony.engine.workspace import Workspace
from symphony.errors import SymphonyError

VARIABLE = "PULUMI_SKIP_CHECKPOINTS"

# The components, and what each provider in providers/ makes; what a stranger's makes bears our mark.
_OURS = ("symphony:", "pulumi-python:dynamic/symphony_tmux:")
# Nothing outside of the state hangs on these.
_BOOKKEEPING = ("pulumi:pulumi:Stack", "pulumi:providers:")
_MANAGED_BY = "app.kubernetes.io/managed-by"
_DISPATCHER = re.compile(
    r"""^\s*(?:symphony\.)?run_program\((?:["'](?P<folder>[^"']+)["'])?\)""", re.MULTILINE
)
# Of the SDK a program may use settings and outputs, and with these modules alone it makes nothing of its own.
_HARMLESS = frozenset({*sys.stdlib_module_names, "pulumi", "symphony"})
_MAKES_MORE = re.compile(r"\bpulumi\.(?:dynamic|runtime)\b|\bfrom pulumi\b|Resource\b|\bStackReference\b")


def is_ours(type_: str, inputs: Mapping[str, Any]) -> bool:
    """Whether a resource is of an experiment, or only the engine's own note."""
    return type_.startswith((*_OURS, *_BOOKKEEPING)) or _labels(inputs).get(_MANAGED_BY) == "symphony"


def holds_only_ours(name: file_store.StackName) -> bool:
    """Whether the recorded state has nothing but experiments in it, begun operations included."""
    try:
        state = file_store.read(name)
    except KeyError:
        return True
    except SymphonyError:
        return False
    known = {resource.urn for resource in state.resources if is_ours(resource.type, resource.inputs)}
    return len(known) == len(state.resources) and all(
        begun.urn in known or is_ours(_type_of(begun.urn), {}) for begun in state.pending
    )


def is_dispatched(workspace: Workspace, stack: str) -> bool:
    """Whether the program is the root dispatcher, and what it runs for this stack makes experiments only."""
    try:
        found = _DISPATCHER.search(workspace.program.read_text(errors="replace"))
        if found is None:
            return False
        said = workspaces.stack_config(workspace, stack).get("symphony:program")
        name = said if isinstance(said, str) else stack.partition(".")[0]
        file = workspace.program.parent / (found["folder"] or "stacks") / f"{name}.py"
        return _makes_experiments_only(file.read_text(errors="replace"))
    except (OSError, SymphonyError):
        return False


def _makes_experiments_only(program: str) -> bool:
    """Whether it surely does: what a module of the user's makes is not looked for."""
    try:
        statements = list(ast.walk(ast.parse(program)))
    except (SyntaxError, ValueError, RecursionError):
        return False
    modules = {name.name for each in statements if isinstance(each, ast.Import) for name in each.names}
    modules |= {each.module or "." for each in statements if isinstance(each, ast.ImportFrom)}
    return {name.partition(".")[0] for name in modules} <= _HARMLESS and not _MAKES_MORE.search(program)


def _labels(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = inputs
    for key in ("metadata", "labels"):
        found = cast("Mapping[str, Any]", found).get(key) if isinstance(found, Mapping) else None
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def _type_of(urn: str) -> str:
    """The last of the types in `urn:pulumi:stack::project::parent$type::name`."""
    parts = urn.split("::")
    return parts[2].rpartition("$")[2] if len(parts) > 3 else ""
