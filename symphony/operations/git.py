"""Reads the commit, the branch and the uncommitted changes of a folder from git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

_DEADLINE = 5.0
_LONGEST_DIFF = 10_000_000
# Git must start no monitor, no external diff and no password prompt.
_QUIET = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")


class Git(msgspec.Struct, frozen=True):
    """The state of a repository.

    Attributes:
        changed: The files that differ from the commit, including new files.
    """

    commit: str
    branch: str = ""
    changed: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.commit[:7]}{' dirty' if self.changed else ''}"


def state(folder: Path) -> tuple[Git | None, bytes]:
    """Return the state of a folder's repository and its diff to the commit; None without a repository."""
    try:
        commit = _git(folder, "rev-parse", "HEAD").decode().strip()
        branch = _git(folder, "rev-parse", "--abbrev-ref", "HEAD").decode().strip()
        status = _git(folder, "status", "--porcelain", "-z", "--untracked-files=normal", ".").decode(
            errors="replace"
        )
        diff = _git(folder, "diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv", ".")
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


def _git(folder: Path, *words: str) -> bytes:
    done = subprocess.run(
        ["git", *_QUIET, *words],
        cwd=folder,
        env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_DEADLINE,
        check=True,
    )
    return done.stdout
