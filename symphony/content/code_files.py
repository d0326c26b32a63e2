"""Finds the files that an entry of `code=` matches: a file, a folder with its content, or a glob."""

import os
from collections.abc import Iterator
from pathlib import Path

from symphony.content import digests

# A process that declares code gets its digest in this variable, so that changed code changes the process.
VARIABLE = "SYMPHONY_CODE"
_WILDCARDS = frozenset("*?[")


def files_of(entry: str, folder: str) -> dict[str, str]:
    """Return the digest of every matching file; an entry is relative to `folder`, the project folder.

    Raises:
        OSError, RuntimeError, ValueError: A file cannot be read, or `~user` names an unknown user.
    """
    return {
        _relative_name(path, entry, folder): digests.of_file(path) for path in _matching_files(entry, folder)
    }


def exists(entry: str, folder: str) -> bool:
    """Return whether an entry is a glob or an existing path; if not, it is probably misspelt."""
    return bool(_WILDCARDS & {*entry}) or os.path.lexists(_absolute_path(entry, folder))


def _absolute_path(entry: str, folder: str) -> str:
    return os.path.normpath(Path(folder, Path(entry).expanduser()))


def _matching_files(entry: str, folder: str) -> Iterator[str]:
    """Yield the absolute paths of the files that an entry matches."""
    # Imported here: the import is slow, and few experiments declare code.
    from pathspec import GitIgnoreSpec

    from symphony.content import ignore_files

    entry = os.path.normpath(entry)
    base, below = _absolute_path(entry, folder), ""
    if _WILDCARDS & {*entry} and not os.path.lexists(base):
        # The name of the project folder may have brackets.
        parts = Path(entry).parts
        first = next(i for i, part in enumerate(parts) if _WILDCARDS & {*part})
        base, below = _absolute_path(str(Path(*parts[:first])), folder), "/" + "/".join(parts[first:])
    rules = ignore_files.rules_above(base, folder)
    if rules is None or not os.path.lexists(base):
        return
    if not Path(base).is_dir():
        if not rules.excludes(base):
            yield base
    elif not rules.excludes(f"{base}/"):
        glob = GitIgnoreSpec.from_lines([below] if below else [])
        for path in ignore_files.walk(base, rules):
            if not below or glob.match_file(path[len(base) :].lstrip("/")):
                yield path


def _relative_name(path: str, entry: str, folder: str) -> str:
    """Return the path relative to the project; absolute if the entry is absolute and outside of it."""
    if path.startswith(f"{folder}/"):
        return path[len(folder) + 1 :]
    return path if entry.startswith(("/", "~")) else os.path.relpath(path, folder)
