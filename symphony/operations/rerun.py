"""Brings back the declaration of a run: its settings, and its code from the kept copy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from symphony.engine import workspace
from symphony.errors import UserError
from symphony.operations import kept_code, runs, stacks
from symphony.operations.selected_stack import SelectedStack
from symphony.plan.names import listed


def prepare(target: SelectedStack, number: int) -> tuple[SelectedStack, list[str]]:
    """Return a stack with the program and the settings of a run, and what cannot come back as it was.

    Processes run from a copy of the kept code, which stays as long as they do.

    Raises:
        UserError: There is no such run, or its code is not kept.
    """
    run = runs.read(target.name, number)
    if not run.code or not Path(run.code).is_dir():
        lacks = "; ".join(run.missing) or "it was removed"
        commit = f"Check out {run.git.commit[:12]}, and run `symphony up`" if run.git else ""
        raise UserError(f"the code of run {number} is not kept: {lacks}", remedy=commit)
    _remove_unused(target)
    code = runs.folder_of(target.name) / f"work-{number}" / "code"
    if not code.is_dir():
        origin = kept_code.Origin(run.code, run.folder, run.git)
        kept_code.freeze(Path(run.code), code, origin)
    place = workspace.find(code)
    if place is None:
        raise UserError(f"the kept code of run {number} has no Pulumi.yaml", where=run.code)
    if place.virtualenv is not None and not os.path.isabs(place.virtualenv):  # noqa: PTH117
        place = replace(place, virtualenv=str(Path(run.folder) / place.virtualenv))
    settings = workspace.config_file(place, target.name.stack)
    kept_code.restore_settings(target.config_file, settings, run.settings, run.secret_settings)
    return SelectedStack(target.name, place), list(_changed(target, run, code))


def _changed(target: SelectedStack, run: runs.Run, code: Path) -> Iterator[str]:
    """Yield what is not as it was in a run, or may not be."""
    yield from run.missing
    gone = [str(file.relative_to(code)) for file in _links(code) if not file.exists()]
    if gone:
        yield f"{listed(gone, 5)}: not kept, and gone from {run.folder}"
    newer = [
        str(file.relative_to(code))
        for file in _links(code)
        if file.is_file() and file.stat().st_mtime > run.started.timestamp()
    ]
    if newer:
        yield f"{listed(newer, 5)}: not kept, and changed since"
    config = {**target.config}
    if unset := [name for name in run.secret_settings if name not in config]:
        yield f"{listed(unset, 5)}: secret settings, which are no longer set"
    for name, image in run.images.items():
        yield f"image {name}: built again from the kept code; it was {image}"


def _links(code: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(code):
        yield from (file for file in (Path(place, name) for name in [*folders, *names]) if file.is_symlink())


def _remove_unused(target: SelectedStack) -> None:
    """Remove the copies of other runs from which nothing runs."""
    used = Path(stacks.folder(stacks.read(target.name)) or "/")
    for work in runs.folder_of(target.name).glob("work-*"):
        if work not in (used, *used.parents):
            runs.remove(work)
