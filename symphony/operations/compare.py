"""Compares two runs: declaration, settings, code files, git."""

from __future__ import annotations

import difflib
import filecmp
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from symphony import files
from symphony.engine.state.file_store import StackName
from symphony.operations import kept_code, runs
from symphony.operations.runs import Run
from symphony.plan.changes import Component, Components, changes

_DIGESTS = ("fingerprint", "code_files", "SYMPHONY_CODE")
_LARGEST_SHOWN = 1_000_000


@dataclass(frozen=True)
class Differences:
    """The differences between two runs.

    Attributes:
        declaration: A line for each process, in the words of a plan.
        settings: name -> the settings and parameters before and after; None where one is not set.
        code: file -> "changed", "new" or "gone".
        git: The two states of the repository, if they differ.
        unknown: What cannot be compared, and why.
    """

    declaration: tuple[str, ...]
    settings: Mapping[str, tuple[Any, Any]]
    code: Mapping[str, str]
    git: tuple[str, ...]
    unknown: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def differences(name: StackName, before: Run, after: Run) -> Differences:
    """Return the differences between two runs of an experiment."""
    both = (before, after)
    plans, trees = [_declared(name, run) for run in both], [_tree(run) for run in both]
    unknown = [f"declaration of run {run.number}" for run, plan in zip(both, plans, strict=True) if not plan]
    unknown += [f"code of run {run.number}" for run, tree in zip(both, trees, strict=True) if tree is None]
    settings = [{**_settings(run), **run.parameters} for run in both]
    commits = [str(run.git or "none") for run in both]
    return Differences(
        declaration=tuple(_declaration(*plans)) if all(plans) else (),
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
    old, new = ((_declared(name, run), _settings(run), run.parameters) for run in (before, after))
    for title, first, second in zip(("declaration", "settings", "parameters"), old, new, strict=True):
        yield from _diff(title, _lines(first), _lines(second))
    trees = [_tree(run) or {} for run in (before, after)]
    for file in _code(*trees):
        yield from _diff(file, *(_text(tree.get(file)) for tree in trees))


def _settings(run: Run) -> dict[str, Any]:
    """Return the settings of a run that are not parameters of its program."""
    own = f"{run.project}:"
    return {key: fact for key, fact in run.settings.items() if key.removeprefix(own) not in run.parameters}


def _diff(title: str, before: list[str], after: list[str]) -> Iterator[str]:
    yield from difflib.unified_diff(before, after, f"a/{title}", f"b/{title}", lineterm="")


def _lines(facts: Any) -> list[str]:
    return json.dumps(_plain(facts), indent=1, sort_keys=True).splitlines()


def _plain(facts: Any) -> Any:
    """Return facts without digests, which are derived from other facts."""
    if isinstance(facts, dict):
        pairs = cast("dict[str, Any]", facts)
        return {key: _plain(fact) for key, fact in pairs.items() if key not in _DIGESTS}
    return [_plain(fact) for fact in facts] if isinstance(facts, list) else facts  # pyright: ignore[reportUnknownVariableType]


def _text(file: Path | None) -> list[str]:
    if file is None:
        return []
    if file.stat().st_size > _LARGEST_SHOWN:
        return ["(a large file)"]
    return file.read_text(encoding="utf-8", errors="replace").splitlines()


def _declared(name: StackName, run: Run) -> dict[str, Any]:
    with suppress(OSError, ValueError, KeyError):
        return json.loads(files.read_source(runs.folder_of(name) / str(run.number) / runs.PLAN))["declared"]
    return {}


def _declaration(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    old, new = before["processes"], after["processes"]
    groups = {
        group: Component(before["groups"].get(group, {}), inputs) for group, inputs in after["groups"].items()
    }
    processes = {path: Component(old.get(path, {}), inputs) for path, inputs in new.items()}
    components = Components(Component(before["experiment"], after["experiment"]), groups, processes)
    recorded = {path: str(inputs.get("fingerprint")) for path, inputs in old.items()}
    words = {"start": "new", "stop": "no longer declared"}
    for change in changes(recorded, components, {}):
        if change.kind != "keep":
            yield f"{change.path}: {words.get(change.kind, change.why)}"


def _tree(run: Run) -> dict[str, Path] | None:
    """Return the kept code files of a run by name; None if its code is not kept."""
    if not run.code or not Path(run.code).is_dir():
        return None
    return {
        os.path.relpath(file, run.code): file
        for place, _, names in os.walk(run.code)
        for file in (Path(place, name) for name in names)
        if not file.is_symlink() and file.name != kept_code.ORIGIN
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
