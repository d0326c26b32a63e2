"""Finds the files that the texts of `code=` name, once, at launch, with their digests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from symphony.spec.experiment import ExperimentSpec
from symphony.spec.inputs.code import CodeFiles

if TYPE_CHECKING:
    from symphony.content.digests import DigestCache

_GLOB = frozenset("*?[")


def read(spec: ExperimentSpec, folder: Path, stack: str) -> ExperimentSpec:
    """Return the spec with the files of its code; folder: the project, from which they are named."""
    declared = dict.fromkeys(text for _, owner in spec.owners() for text in owner.code)
    return replace(spec, code_files=files_of(declared, folder, stack)) if declared else spec


def files_of(declared: Iterable[str], folder: Path, stack: str) -> dict[str, CodeFiles]:
    """Return the files of every text of `code=`."""
    # Most experiments declare no code.
    from symphony.content.digests import DigestCache

    with DigestCache("code", folder / stack) as cache:
        return {text: _files_of(text, str(folder), cache) for text in declared}


def _files_of(text: str, folder: str, cache: DigestCache) -> CodeFiles:
    from symphony.content import digests

    try:
        # A home that nobody has is a trouble with a line.
        place = os.path.normpath(Path(folder, Path(text).expanduser()))
        paths = list(_paths(place, folder))
        files = {_named(path, text, folder): digests.of_file(path, cache) for path in paths}
    except (OSError, RuntimeError, ValueError) as error:
        return CodeFiles(trouble=f"which cannot be read: {getattr(error, 'strerror', None) or error}".lower())
    if files:
        return CodeFiles(files)
    exists = bool(_GLOB & {*text}) or os.path.lexists(place)
    why = (
        "it has no files, or .gitignore and .symphonyignore exclude them" if exists else "which is not there"
    )
    return CodeFiles(trouble=why)


def _paths(place: str, folder: str) -> Iterator[str]:
    """Yield the absolute paths of the files that a path or a glob names."""
    from pathspec import GitIgnoreSpec

    from symphony.content import ignore_files

    base, pattern = place, ""
    if _GLOB & {*place} and not os.path.lexists(place):
        parts = Path(place).parts
        first = next(i for i, part in enumerate(parts) if _GLOB & {*part})
        base, pattern = str(Path(*parts[:first])), "/" + "/".join(parts[first:])
    rules = ignore_files.rules_above(base, folder)
    if rules is None or not os.path.lexists(base):
        return
    if not Path(base).is_dir():
        if not rules.leaves_out(base):
            yield base
    elif not rules.leaves_out(f"{base}/"):
        wanted = GitIgnoreSpec.from_lines([pattern] if pattern else [])
        for path in ignore_files.walk(base, rules):
            if not pattern or wanted.match_file(path[len(base) :].lstrip("/")):
                yield path


def _named(path: str, text: str, folder: str) -> str:
    """Return the path from the folder of the project, so that it is the same on another machine."""
    if path.startswith(f"{folder}/"):
        return path[len(folder) + 1 :]
    return path if text.startswith(("/", "~")) else os.path.relpath(path, folder)
