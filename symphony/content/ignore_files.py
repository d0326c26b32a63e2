"""The files of a folder that .gitignore and .symphonyignore leave in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from symphony import files

# In one folder the later one wins, so that it can take back rules of the earlier.
NAMES = (".gitignore", ".symphonyignore")
# Files that Python and editors write while the code runs, and the settings of stacks, into which the engine
# writes, are not part of the code.
_FOLDERS = frozenset({".git", ".hg", ".svn", "__pycache__", ".venv", ".ipynb_checkpoints"})
_ENDINGS = (".pyc", ".pyo", ".swp", ".swo", ".swx", "~")


@dataclass(frozen=True)
class IgnoreRules:
    """The rules of the ignore files of a folder and of those above it; the nearest folder comes last."""

    specs: tuple[tuple[str, GitIgnoreSpec], ...] = ()

    def within(self, folder: str) -> IgnoreRules:
        """Return the rules that hold in a folder; folder: an absolute path with a slash at its end."""
        text = b"\n".join(_content(folder + name) for name in NAMES)
        if not text.strip():
            return self
        spec = _spec(text.decode("utf-8", "surrogateescape").splitlines())
        return IgnoreRules((*self.specs, (folder, spec)))

    def leaves_out(self, path: str) -> bool:
        """Return whether a file, or a folder with all in it, is left out; a folder has a slash at its end."""
        name = path.rstrip("/").rpartition("/")[2]
        if name in _FOLDERS if path.endswith("/") else name.endswith(_ENDINGS) or _is_settings(name):
            return True
        for folder, spec in reversed(self.specs):
            ignored = spec.check_file(path[len(folder) :]).include
            if ignored is not None:
                return ignored
        return False


def rules_above(path: str, project: str) -> IgnoreRules | None:
    """Return the rules for a path: of all folders above it, up to that of its repository or its project.

    path, project: absolute. None: one of these folders is left out itself.
    """
    parents = [f"{each}/".replace("//", "/") for each in Path(path).parents]
    repository = next((each for each in parents if Path(each, ".git").exists()), "")
    tops = [i for i, each in enumerate(parents) if each in (repository, f"{project.rstrip('/')}/")]
    rules = IgnoreRules()
    for i, folder in enumerate(reversed(parents[: max(tops, default=0) + 1])):
        if i and rules.leaves_out(folder):
            return None
        rules = rules.within(folder)
    return rules


def walk(folder: str, rules: IgnoreRules) -> Iterator[str]:
    """Yield the absolute paths of all files and links that the rules leave in; folder: an absolute path.

    Links are not followed.

    Raises:
        OSError: A folder cannot be read.
    """
    pending = [(folder.rstrip("/") + "/", rules)]
    while pending:
        place, outer = pending.pop()
        inner = outer.within(place)
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if not inner.leaves_out(f"{entry.path}/"):
                        pending.append((f"{entry.path}/", inner))
                # Sockets, pipes and devices are not code.
                elif (entry.is_symlink() or entry.is_file()) and not inner.leaves_out(entry.path):
                    yield entry.path


def _is_settings(name: str) -> bool:
    return name in NAMES or (name.startswith("Pulumi.") and name.endswith(".yaml"))


def _content(file: str) -> bytes:
    with suppress(OSError):
        return files.read_source(file)
    return b""


def _spec(lines: list[str]) -> GitIgnoreSpec:
    """Return the rules of these lines; git ignores a line that is not valid, and so does this."""
    with suppress(ValueError):
        return GitIgnoreSpec.from_lines(lines)
    return GitIgnoreSpec.from_lines([line for line in lines if _is_valid(line)])


def _is_valid(line: str) -> bool:
    with suppress(ValueError):
        GitIgnoreSpec.from_lines([line])
        return True
    return False
