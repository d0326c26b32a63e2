"""Restores the declaration of a run: its settings, its code (kept or from git), and its images by digest."""

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any

from symphony.engine import workspace
from symphony.errors import SymphonyError, UserError
from symphony.operations import git, kept_code, runs, stacks
from symphony.operations.selected_stack import SelectedStack
from symphony.plan.names import listed

# Characters that separate paths in a shell command.
_PUNCTUATION = re.compile(r"[\s;|&<>()'\"=:,]+")
# The processes that a difference concerns, () if unknown, and the difference in words.
Difference = tuple[tuple[str, ...], str]


def prepare(target: SelectedStack, number: int) -> tuple[SelectedStack, list[Difference]]:
    """Return a stack with the program and the settings of a run, and what cannot be restored.

    Processes run from a copy of the code, which stays as long as they do.

    Raises:
        UserError: The run does not exist, or its code is neither kept nor in git.
    """
    run = runs.read(target.name, number)
    if not run.keeps_code and not (
        run.is_of_project and run.git and git.has(Path(run.folder), run.git.commit)
    ):
        raise _not_kept(target, run)
    _remove_unused(target)
    record = runs.folder_of(target.name) / str(number)
    code = record.with_name(f"work-{number}") / "code"
    if not code.is_dir():
        origin = kept_code.Origin(
            run.code if run.keeps_code else str(record / runs.CODE), run.folder, run.git
        )
        if run.keeps_code:
            kept_code.freeze(Path(run.code), code, origin)
        elif run.git:
            kept_code.restore(origin, run.git.commit, record / runs.DIFF, code)
    images = {name: image for name, image in run.images.items() if _is_in_registry(image)}
    kept_code.set_images(code, images)
    project = workspace.find(code)
    if project is None:
        remedy = f"Choose another run of `symphony history {target.name.stack}`"
        raise UserError(f"the code of run {number} has no Pulumi.yaml", where=str(code), remedy=remedy)
    settings = workspace.config_file(project, target.name.stack)
    kept_code.restore_settings(target.config_file, settings, run.settings, run.secret_settings)
    return SelectedStack(target.name, project), list(_differences(target, run, code, images))


def _not_kept(target: SelectedStack, run: runs.Run) -> UserError:
    reasons = [line.partition("code: ")[2] for line in run.missing]
    reason = "it was removed" if run.code else next(filter(None, reasons), "; ".join(run.missing))
    remedy = f"Choose another run of `symphony history {target.name.stack}`"
    if run.is_of_project and run.git is not None:
        reason += f"; its commit {run.git.commit[:12]} is no longer in {run.folder}"
    return UserError(f"the code of run {run.number} cannot be restored: {reason}", remedy=remedy)


def _is_in_registry(image: str) -> bool:
    """Return whether a registry has an image; assume it if the registry does not answer."""
    from symphony_docker import image_registry

    repository, _, digest = image.partition("@")
    with suppress(SymphonyError):
        return image_registry.has(repository, digest)
    return True


def _differences(
    target: SelectedStack, run: runs.Run, code: Path, images: Mapping[str, str]
) -> Iterator[Difference]:
    """Yield the differences from a run: files that were not kept, secret settings, images."""
    plan = runs.plan_file(target.name, run.number).get("plan", {})
    processes: Sequence[Mapping[str, Any]] = plan.get("processes", ())
    changed: dict[Difference, list[str]] = defaultdict(list)
    if not run.keeps_code:
        changed[(), "changed since the commit of that run, and not kept"].extend(
            _changed_and_lost(target, run, code)
        )
    for link in _links(code):
        name = str(link.relative_to(code))
        users = {row["path"]: words for row in processes if (words := _paths_in(row, name))}
        # In a folder, only the files that processes name are compared.
        inner = {word for words in users.values() for word in words}
        for file in sorted({name, *inner} if link.is_dir() else {name}):
            if change := _change(code / file, run):
                paths = tuple(path for path, words in users.items() if file in words or file == name)
                changed[paths, change].append(file)
    for (paths, change), files in filter(itemgetter(1), changed.items()):
        yield paths, f"{listed(files, 5)}: {change}"
    if unset := [name for name in run.secret_settings if name not in target.config]:
        yield (), f"{listed(unset, 5)}: secret, and no longer set"
    references = {row["name"]: row["reference"] for row in plan.get("images", ())}
    for name, image in run.images.items():
        if name not in images:
            paths = tuple(row["path"] for row in processes if row["image"] == references.get(name, image))
            yield paths, f"image {name}: no longer in the registry, so it is rebuilt"


def _changed_and_lost(target: SelectedStack, run: runs.Run, code: Path) -> Iterator[str]:
    """Yield the files that a run had changed since its commit, and whose changes git.diff does not have."""
    diff = runs.folder_of(target.name) / str(run.number) / runs.DIFF
    restored = diff.read_text("utf-8", "replace") if diff.is_file() else ""
    prefix = git.prefix(Path(run.folder))
    for name in run.git.changed if run.git else ():
        file = name.removeprefix(prefix).rstrip("/")
        # The record has the settings, and Python writes __pycache__ again.
        if kept_code.is_settings_file(file) or Path(file).name == "__pycache__":
            continue
        if f"/{name}" not in restored and not (code / file).is_symlink():
            yield file


def _change(file: Path, run: runs.Run) -> str:
    """Return the change of a file that was not kept since a run; empty if there is none."""
    if not file.exists():
        return f"not kept, and no longer in {run.folder}"
    if file.is_file() and file.stat().st_mtime > run.started.timestamp():
        return "not kept, and changed since"
    return ""


def _paths_in(process: Mapping[str, Any], name: str) -> set[str]:
    """Return the paths in the declaration of a process that name a file, or files in a folder."""
    lines = [*process["command"], *process["args"], *process["cmds"], *process["preamble_cmds"]]
    lines += [*process["code"], *process["env"].values(), *process["secret_env"].values()]
    words = (word for line in lines for word in _PUNCTUATION.split(str(line)) if word)
    return {path for word in words if (path := os.path.normpath(word)) == name or path.startswith(f"{name}/")}


def _links(code: Path) -> Iterator[Path]:
    """Yield the links in a copy, which stand for files that are not kept."""
    for parent, folders, names in os.walk(code):
        yield from (path for path in (Path(parent, name) for name in [*folders, *names]) if path.is_symlink())


def _remove_unused(target: SelectedStack) -> None:
    """Remove the copies of runs except the one from which the experiment was last started."""
    used = Path(stacks.folder(stacks.read(target.name)) or "/")
    for work in runs.folder_of(target.name).glob("work-*"):
        if work not in (used, *used.parents):
            runs.remove(work)
