"""The rules of .gitignore and .symphonyignore, from the top of the repository down to each folder."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from symphony import files

# In one folder the later one wins, so that it can take back what the other says.
NAMES = (".gitignore", ".symphonyignore")
# What nobody means who says that a folder is code: what Python and editors write there while it runs, and the
# settings of stacks, into which the engine writes.
_FOLDERS = frozenset({".git", ".hg", ".svn", "__pycache__", ".venv", ".ipynb_checkpoints"})
_ENDINGS = (".pyc", ".pyo", ".swp", ".swo", ".swx", "~")


@dataclass(frozen=True)
class IgnoreFiles:
    """What the ignore files of a folder and of those above it leave out; specs: the nearest folder last."""

    specs: tuple[tuple[str, GitIgnoreSpec], ...] = ()
    key: str = ""

    def within(self, folder: str) -> IgnoreFiles:
        text = b"\n".join(_content(folder + name) for name in NAMES)
        if not text.strip():
            return self
        key = hashlib.sha256(f"{self.key} {folder} ".encode("utf-8", "surrogateescape") + text)
        spec = _spec(text.decode("utf-8", "surrogateescape").splitlines())
        return IgnoreFiles((*self.specs, (folder, spec)), key.hexdigest()[:16])

    def leaves_out(self, path: str) -> bool:
        name = path.rstrip("/").rpartition("/")[2]
        if name in _FOLDERS if path.endswith("/") else name.endswith(_ENDINGS) or _is_settings(name):
            return True
        for folder, spec in reversed(self.specs):
            ignored = spec.check_file(path[len(folder) :]).include
            if ignored is not None:
                return ignored
        return False


def above(path: str, project: str) -> IgnoreFiles | None:
    """The rules for a file or folder, of all folders above it up to that of its repository or its project.

    path, project: absolute. None: one of these folders is left out itself.
    """
    parents = [f"{each}/".replace("//", "/") for each in Path(path).parents]
    repository = next((each for each in parents if Path(each, ".git").exists()), "")
    tops = [i for i, each in enumerate(parents) if each in (repository, f"{project.rstrip('/')}/")]
    rules = IgnoreFiles()
    for i, folder in enumerate(reversed(parents[: max(tops, default=0) + 1])):
        if i and rules.leaves_out(folder):
            return None
        rules = rules.within(folder)
    return rules


def _is_settings(name: str) -> bool:
    return name in NAMES or (name.startswith("Pulumi.") and name.endswith(".yaml"))


def _content(file: str) -> bytes:
    with suppress(OSError):
        return files.read_source(file)
    return b""


def _spec(lines: list[str]) -> GitIgnoreSpec:
    """The rules of these lines; one that means nothing counts for nothing, as in git."""
    with suppress(ValueError):
        return GitIgnoreSpec.from_lines(lines)
    return GitIgnoreSpec.from_lines([line for line in lines if _is_rule(line)])


def _is_rule(line: str) -> bool:
    with suppress(ValueError):
        GitIgnoreSpec.from_lines([line])
        return True
    return False
