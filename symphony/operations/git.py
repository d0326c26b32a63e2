"""Reads the commit and the uncommitted changes of a folder from git, and restores them."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

_DEADLINE, _EXPORT_DEADLINE = 5.0, 120.0
_LONGEST_DIFF = 10_000_000
# Git must start no monitor, no external diff and no password prompt.
_QUIET = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
# A diff that `git apply` reads, whatever the settings of the user.
_DIFF = (
    *("-c", "diff.relative=false", "diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv"),
    *("--no-color", "--unified=3", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/"),
)


class Git(msgspec.Struct, frozen=True):
    """The state of a repository.

    Attributes:
        changed: The files below the folder asked for that differ from the commit, including new files.
    """

    commit: str
    branch: str = ""
    changed: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.commit[:7]}{' dirty' if self.changed else ''}"


def state(folder: Path) -> tuple[Git | None, bytes]:
    """Return the state of a folder's repository and its diff to the commit; None if git does not tell.

    A diff of more than _LONGEST_DIFF bytes is cut, and `apply` then raises an error.
    """
    try:
        commit = _git(folder, "rev-parse", "HEAD").decode().strip()
        branch = _git(folder, "rev-parse", "--abbrev-ref", "HEAD").decode().strip()
        status = _git(folder, "status", "--porcelain", "-z", "--untracked-files=normal", ".").decode(
            errors="replace"
        )
        diff = _git(folder, *_DIFF, ".")
    except (OSError, subprocess.SubprocessError):
        return None, b""
    changed = tuple(_names(status.split("\0")))
    return Git(commit, "" if branch == "HEAD" else branch, changed), diff[:_LONGEST_DIFF]


def has(folder: Path, commit: str) -> bool:
    """Return whether the repository of a folder has a commit."""
    try:
        _git(folder, "cat-file", "-e", f"{commit}^{{commit}}")
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def export(folder: Path, commit: str, to: Path) -> None:
    """Write the files that a folder has in a commit below `to`.

    Raises:
        OSError: A file cannot be written.
        subprocess.SubprocessError: The repository does not have the commit.
    """
    # Imported here: every listing loads this module.
    import tarfile

    archive = to.with_name(f"{to.name}.tar")
    try:
        _git(folder, "archive", "--format=tar", f"--output={archive}", commit, deadline=_EXPORT_DEADLINE)
        with tarfile.open(archive) as tar:
            # The repository is the user's own, and its links may lead anywhere.
            tar.extractall(to, filter="tar")
    finally:
        archive.unlink(missing_ok=True)


def apply(diff: Path, folder: Path, to: Path) -> None:
    """Apply the diff that `state` returned for a folder to a copy of that folder."""
    depth = 1 + prefix(folder).count("/")
    # In a repository around the copy, git would skip the files.
    _git(to, "apply", f"-p{depth}", "--whitespace=nowarn", str(diff), GIT_CEILING_DIRECTORIES=str(to.parent))


def prefix(folder: Path) -> str:
    """Return the path of a folder in its repository, with a slash at its end; empty for the root."""
    return os.fsdecode(_git(folder, "rev-parse", "--show-prefix").strip())


def untracked(folder: Path) -> list[str]:
    """Return the files and folders in a folder that git does not track, ignored ones included."""
    names = _git(folder, "ls-files", "--others", "--directory", "-z", deadline=_EXPORT_DEADLINE)
    return [os.fsdecode(name).rstrip("/") for name in names.split(b"\0") if name]


def _names(entries: Sequence[str]) -> Sequence[str]:
    names: list[str] = []
    rest = iter(entries)
    for entry in rest:
        if entry:
            names.append(entry[3:])
        if entry[:1] in ("R", "C"):
            # The old name of a renamed file.
            next(rest, None)
    return names


def _git(folder: Path, *words: str, deadline: float = _DEADLINE, **variables: str) -> bytes:
    done = subprocess.run(
        ["git", *_QUIET, *words],
        cwd=folder,
        env={**os.environ, "GIT_TERMINAL_PROMPT": "0", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=deadline,
        check=True,
    )
    return done.stdout
