"""Reads the state of stores that are not files (a cloud, a bucket) through the engine."""

from __future__ import annotations

import json
from typing import Any, cast

from symphony import paths
from symphony.engine import workspace
from symphony.engine.state import file_store
from symphony.engine.state.file_store import StackName, StackState
from symphony.errors import SymphonyError


def names() -> list[StackName]:
    """All stacks that this user sees."""
    listed = cast(
        "list[dict[str, Any]]", _ask(["stack", "ls", "--all", "--json", "--fully-qualify-stack-names"])
    )
    return sorted(_name(str(row["name"])) for row in listed)


def read(name: StackName) -> StackState:
    """The state of one stack; KeyError when the store has none of that name."""
    raw = cast("dict[str, Any]", _ask(["stack", "export", f"--stack={name}"], name))
    return file_store.from_deployment(name, cast("dict[str, Any]", raw.get("deployment") or {}))


def _ask(arguments: list[str], name: StackName | None = None) -> Any:
    # Any project will do, but without one the command line may refuse a full name.
    place = workspace.hidden(workspace.DEFAULT_PROJECT, "none")
    done = workspace.pulumi(place, arguments)
    if name is not None and "no stack named" in done.stderr:
        raise KeyError(str(name))
    try:
        if done.returncode:
            raise ValueError(done.stderr)
        return json.loads(done.stdout)
    except ValueError as error:
        from symphony.engine import errors

        stack, project = (name.stack, name.project) if name else (paths.store_url(), "")
        known = errors.from_text(done.stderr or str(error), stack=stack, project=project)
        raise SymphonyError(known.what, where=known.where, remedy=known.remedy) from error


def _name(text: str) -> StackName:
    *above, stack = text.split("/")
    return StackName(above[-1] if above else "", stack, above[0] if len(above) > 1 else "organization")
