"""The files of a folder that .gitignore and .symphonyignore do not exclude."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from symphony import files, paths

# In the same folder the later file wins, so that .symphonyignore can override .gitignore.
NAMES = (".gitignore", ".symphonyignore")
# Not code: files that Python and editors write, ignore files, Pulumi.yaml, and settings of stacks.
_FOLDERS = frozenset({".git", ".hg", ".svn", "__pycache__", ".venv", ".ipynb_checkpoints"})
_SUFFIXES = (".pyc", ".pyo", ".swp", ".swo", ".swx", "~")


@dataclass(frozen=True)
class IgnoreRules:
    """The ignore rules of a folder and the folders above it; the nearest folder comes last.

    specs: folder, its path in the folder of the rules, and the rules. The path is empty except in a copy of
        a project, for the folders above that project.
    """

    specs: tuple[tuple[str, str, GitIgnoreSpec], ...] = ()

    def within(self, folder: str) -> IgnoreRules:
        """Return the rules that apply in a folder; folder: an absolute path with a slash at its end."""
        text = b"\n".join(_content(folder + name) for name in NAMES)
        if not text.strip():
            return self
        spec = _spec(text.decode("utf-8", "surrogateescape").splitlines())
        return IgnoreRules((*self.specs, (folder, "", spec)))

    def for_copy(self, project: str, copy: str) -> IgnoreRules:
        """Return the rules of the folders above a project, for a copy of it elsewhere."""
        above = (row for row in self.specs if row[0] != project)
        return IgnoreRules(tuple((copy, project[len(folder) :], spec) for folder, _, spec in above))

    def excludes(self, path: str) -> bool:
        """Return whether a file or a whole folder is excluded; a folder's path has a slash at its end."""
        name = path.rstrip("/").rpartition("/")[2]
        if name in _FOLDERS if path.endswith("/") else name.endswith(_SUFFIXES) or _is_settings(name):
            return True
        for folder, inner, spec in reversed(self.specs):
            ignored = spec.check_file(inner + path[len(folder) :]).include
            if ignored is not None:
                return ignored
        return False


def rules_above(path: str, project: str) -> IgnoreRules | None:
    """Return the rules of all folders above a path, up to its repository or its project, whichever is higher.

    path, project: absolute paths. None: one of these folders is excluded itself. Above a copy of a project,
    the rules above that project apply.
    """
    folders = [f"{folder}/".replace("//", "/") for folder in (Path(path), *Path(path).parents)]
    for i, copy in enumerate(folders):
        if (original := paths.project_of_copy(Path(copy))) is not None:
            above = rules_above(f"{original}/_", original)
            return above and _rules_below(above.for_copy(f"{original}/", copy), folders[1 : i + 1])
    repository = next((folder for folder in folders if Path(folder, ".git").exists()), "")
    tops = [i for i, folder in enumerate(folders) if folder in (repository, f"{project.rstrip('/')}/")]
    return _rules_below(IgnoreRules(), folders[1 : max(tops, default=1) + 1])


def _rules_below(rules: IgnoreRules, folders: Sequence[str]) -> IgnoreRules | None:
    """Return the rules in the first of some folders, each in the next one; None if one is excluded."""
    for i, folder in enumerate(reversed(folders)):
        if i and rules.excludes(folder):
            return None
        rules = rules.within(folder)
    return rules


def walk(folder: str, rules: IgnoreRules) -> Iterator[str]:
    """Yield the absolute paths of all files and links that the rules do not exclude; folder: absolute.

    Links are not followed.

    Raises:
        OSError: A folder cannot be read.
    """
    pending = [(folder.rstrip("/") + "/", rules)]
    while pending:
        folder_path, inherited = pending.pop()
        own_rules = inherited.within(folder_path)
        with os.scandir(folder_path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if not own_rules.excludes(f"{entry.path}/"):
                        pending.append((f"{entry.path}/", own_rules))
                # Sockets, pipes and devices are not code.
                elif (entry.is_symlink() or entry.is_file()) and not own_rules.excludes(entry.path):
                    yield entry.path


def _is_settings(name: str) -> bool:
    return name in NAMES or (name.startswith("Pulumi.") and name.endswith(".yaml"))


def _content(file: str) -> bytes:
    with suppress(OSError):
        return files.read_source(file)
    return b""


def _spec(lines: list[str]) -> GitIgnoreSpec:
    """Return the rules of some lines; invalid lines are ignored, as git does."""
    with suppress(ValueError):
        return GitIgnoreSpec.from_lines(lines)
    return GitIgnoreSpec.from_lines([line for line in lines if _is_valid(line)])


def _is_valid(line: str) -> bool:
    with suppress(ValueError):
        GitIgnoreSpec.from_lines([line])
        return True
    return False
