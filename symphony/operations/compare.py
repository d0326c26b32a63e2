"""Compares two runs: declaration, settings, code files, git."""

import difflib
import filecmp
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from symphony import paths
from symphony.engine.state.file_store import StackName
from symphony.operations import runs
from symphony.operations.runs import Run
from symphony.plan.changes import Component, Components, changes

# Keys that unified() omits, since they derive from others; plan.changes omits its own.
_DIGESTS = ("fingerprint", "code_files", "SYMPHONY_CODE")
_LARGEST_SHOWN = 1_000_000


@dataclass(frozen=True)
class Differences:
    """The differences between two runs.

    Attributes:
        declaration: A line for each changed process, in the words of a plan.
        settings: name -> the settings and parameters before and after; None if it is not set.
        code: file -> "changed", "new" or "gone".
        git: The two states of the repository, if they differ.
        unknown: The parts that cannot be compared.
    """

    declaration: tuple[str, ...]
    settings: Mapping[str, tuple[Any, Any]]
    code: Mapping[str, str]
    git: tuple[str, ...]
    unknown: tuple[str, ...]


def differences(name: StackName, before: Run, after: Run) -> Differences:
    """Return the differences between two runs of an experiment."""
    both = (before, after)
    declared = [runs.plan_file(name, run.number).get("declared", {}) for run in both]
    trees = [_tree(run) for run in both]
    runs_declared = zip(both, declared, strict=True)
    unknown = [f"declaration of run {run.number}" for run, inputs in runs_declared if not inputs]
    unknown += [f"code of run {run.number}" for run, tree in zip(both, trees, strict=True) if tree is None]
    # The record of a plain `pulumi up`, and a damaged one, name no user and have no settings.
    bare = [run for run in both if not run.user]
    unknown += [f"settings and git of run {run.number}" for run in bare]
    settings = [{} if bare else {**_settings(run), **run.parameters} for run in both]
    commits = ["" if bare else str(run.git or "none") for run in both]
    return Differences(
        declaration=tuple(_declaration(*declared)) if all(declared) else (),
        settings={
            key: (settings[0].get(key), settings[1].get(key))
            for key in sorted({*settings[0], *settings[1]})
            if settings[0].get(key) != settings[1].get(key)
        },
        code={} if None in trees else _code(*(tree or {} for tree in trees)),
        git=tuple(commits) if commits[0] != commits[1] else (),
        unknown=tuple(unknown),
    )


def unified(name: StackName, before: Run, after: Run) -> Iterator[str]:
    """Yield the lines of a diff of the declarations, the settings and the code."""
    both = (before, after)
    declared = [runs.plan_file(name, run.number).get("declared", {}) for run in both]
    if all(declared):
        yield from _diff("declaration", *map(_json_lines, declared))
    if all(run.user for run in both):
        yield from _diff("settings", *(_json_lines(_settings(run)) for run in both))
        yield from _diff("parameters", *(_json_lines(run.parameters) for run in both))
    trees = [tree for run in both if (tree := _tree(run)) is not None]
    for file in _code(*trees) if len(trees) == len(both) else ():
        yield from _diff(file, *(_file_lines(tree.get(file)) for tree in trees))
    yield from (f"not compared: {part}" for part in differences(name, before, after).unknown)


def _settings(run: Run) -> dict[str, Any]:
    """Return the settings of a run that are not parameters of its program, as the engine writes them."""
    own = f"{run.project}:"
    others = {
        key: value for key, value in run.settings.items() if key.removeprefix(own) not in run.parameters
    }
    return {key: _engine_text(value) for key, value in others.items()}


def _engine_text(value: Any) -> Any:
    """Return a number or truth value as the engine writes it into the file at `-c`: 2.0 as "2"."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, (int, float)) else value


def _diff(title: str, before: list[str], after: list[str]) -> Iterator[str]:
    yield from difflib.unified_diff(before, after, f"a/{title}", f"b/{title}", lineterm="")


def _json_lines(value: Any) -> list[str]:
    return json.dumps(_without_digests(value), indent=1, sort_keys=True).splitlines()


def _without_digests(value: Any) -> Any:
    """Return a value without digests, which are derived from other values."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: _without_digests(item) for key, item in items if key not in _DIGESTS}
    if isinstance(value, list):
        return [_without_digests(item) for item in cast("list[Any]", value)]
    return value


def _file_lines(file: Path | None) -> list[str]:
    if file is None:
        return []
    if file.stat().st_size > _LARGEST_SHOWN:
        return ["(a large file)"]
    return file.read_text(encoding="utf-8", errors="replace").splitlines()


def _declaration(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    old, new = before["processes"], after["processes"]
    groups = {
        group: Component(before["groups"].get(group, {}), inputs) for group, inputs in after["groups"].items()
    }
    processes = {path: Component(old.get(path, {}), inputs) for path, inputs in new.items()}
    components = Components(Component(before["experiment"], after["experiment"]), groups, processes)
    recorded = {path: str(inputs.get("fingerprint")) for path, inputs in old.items()}
    words = {"start": "new", "stop": "no longer declared"}
    for change in changes(recorded, components, restart_reasons={}):
        if change.kind != "keep":
            yield f"{change.path}: {words.get(change.kind, change.why)}"


def _tree(run: Run) -> dict[str, Path] | None:
    """Return the kept code files of a run by name; None if its code is not kept."""
    if not run.code or not Path(run.code).is_dir():
        return None
    return {
        os.path.relpath(file, run.code): file
        for folder, _, names in os.walk(run.code)
        for file in (Path(folder, name) for name in names)
        if not file.is_symlink() and file.name != paths.ORIGIN
    }


def _code(before: Mapping[str, Path], after: Mapping[str, Path]) -> dict[str, str]:
    differing: dict[str, str] = {}
    for file in sorted({*before, *after}):
        if file not in after:
            differing[file] = "gone"
        elif file not in before:
            differing[file] = "new"
        elif not filecmp.cmp(before[file], after[file], shallow=False):
            differing[file] = "changed"
    return differing
