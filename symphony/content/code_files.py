"""Finds the files that an entry of `code=` matches: a file, a folder with its content, or a glob."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from symphony.content import digests
from symphony.content.digests import DigestCache

# A process that declares code gets its digest in this variable, so that changed code changes the process.
VARIABLE = "SYMPHONY_CODE"
_GLOB = frozenset("*?[")


def files_of(text: str, folder: str, cache: DigestCache) -> dict[str, str]:
    """Return the digest of every matching file; folder: the project's, to which the names are relative.

    Raises:
        OSError, RuntimeError, ValueError: A file cannot be read, or `~user` names an unknown user.
    """
    return {
        _named(path, text, folder): digests.of_file(path, cache)
        for path in _paths(_place(text, folder), folder)
    }


def exists(text: str, folder: str) -> bool:
    """Return whether an entry without matching files is a glob or an existing path."""
    return bool(_GLOB & {*text}) or os.path.lexists(_place(text, folder))


def _place(text: str, folder: str) -> str:
    return os.path.normpath(Path(folder, Path(text).expanduser()))


def _paths(place: str, folder: str) -> Iterator[str]:
    """Yield the absolute paths of the files that a path or a glob names."""
    # Imported here: the import is slow, and few experiments declare code.
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
        if not rules.excludes(base):
            yield base
    elif not rules.excludes(f"{base}/"):
        wanted = GitIgnoreSpec.from_lines([pattern] if pattern else [])
        for path in ignore_files.walk(base, rules):
            if not pattern or wanted.match_file(path[len(base) :].lstrip("/")):
                yield path


def _named(path: str, text: str, folder: str) -> str:
    """Return the path relative to the project, so that it is the same on another machine."""
    if path.startswith(f"{folder}/"):
        return path[len(folder) + 1 :]
    return path if text.startswith(("/", "~")) else os.path.relpath(path, folder)
