"""Checks that files, folders and commands of a declaration exist on this machine or a shared disk."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from symphony import files, paths
from symphony.backends import local_files
from symphony.plan.names import quoted
from symphony.plan.problems import Problem
from symphony.spec.experiment import ExperimentSpec, path_of
from symphony_tmux.processes import launch_file

# Shell syntax: quotes, variables, patterns, assignments and redirections.
_OF_SHELLS = re.compile(r"""[^\w\s./:,@%+=-]|^\s*\w+=""")


def unusable(spec: ExperimentSpec, folder: Path) -> dict[str, str]:
    """Return the secret and config files and start folders that cannot be used, and why."""
    _, reasons = local_files.sizes(spec)
    owners: list[Any] = [spec, *spec.groups, *(process for _, process in spec.members())]
    for start_dir in {owner.start_dir for owner in owners if owner.start_dir}:
        if why := _not_a_folder(resolved(start_dir, folder)):
            reasons[start_dir] = why
    return reasons


def unstartable(spec: ExperimentSpec, folder: Path, path: str) -> dict[str, str]:
    """Return the processes whose command is missing or not executable, with the reason; path: their PATH.

    A preamble may change PATH, so processes with a preamble are not checked.
    """
    reasons: dict[str, str] = {}
    look = lru_cache(maxsize=None)(_missing)
    for group, process in spec.members():
        if spec.preamble_cmds or process.preamble_cmds or (group and group.preamble_cmds) or process.cmds:
            continue
        command = process.command
        if not command or not command[0]:
            continue
        start_dir = process.start_dir or (group.start_dir if group else None) or spec.start_dir or ""
        home = resolved(start_dir, folder)
        own_path = _declared_path(spec, group, process) or path
        if why := look(command[0], home, own_path):
            reasons[path_of(group, process)] = why
    return reasons


def missing_programs(spec: ExperimentSpec, folder: Path, path: str) -> Iterator[Problem]:
    """Yield remarks on programs and scripts that do not exist; processes with a preamble are not checked.

    Args:
        spec: The experiment.
        folder: The folder to which relative paths are relative.
        path: The PATH of the processes.
    """
    for group, process in spec.members():
        if spec.preamble_cmds or process.preamble_cmds or (group and group.preamble_cmds):
            continue
        name, setting = path_of(group, process), "cmds" if process.cmds else "args"
        words = _plain_words(process.cmds[0]) if process.cmds else [*(process.command or ()), *process.args]
        start_dir = process.start_dir or (group.start_dir if group else None) or spec.start_dir or ""
        home = resolved(start_dir, folder)
        if not words:
            continue
        own_path = _declared_path(spec, group, process) or path
        # A missing `command` is a problem, reported by `unstartable`.
        if process.cmds and (why := _missing(words[0], home, own_path)) and not _is_of_shell(words[0]):
            what = f"{name} runs {words[0]}: {why}"
            yield Problem(what, "check the command's spelling and PATH", (process.at(setting),))
        elif (file := _python_file(words)) and not os.path.lexists(home / file):
            what = f"{name} runs {file}, which is not in its start folder"
            yield Problem(what, "check the file's name, or set start_dir", (process.at(setting),))


def _plain_words(line: str) -> list[str]:
    """Return the words of a shell line without `exec`; empty if the line has shell syntax."""
    words = [] if _OF_SHELLS.search(line) else line.split()
    return words[1:] if words[:1] == ["exec"] else words


def _python_file(words: Sequence[str]) -> str:
    """Return FILE.py of `python -u FILE.py ARG`, or an empty string."""
    if not Path(words[0]).name.startswith("python") or {"-m", "-c"} & set(words):
        return ""
    file = next((word for word in words[1:] if not word.startswith("-")), "")
    return file if file.endswith(".py") else ""


@cache
def _is_of_shell(word: str) -> bool:
    """Return whether a word is a builtin or keyword of the shell."""
    asked = [launch_file.bash(), "-c", 'command -v -- "$1"', "sh", word]
    return subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, timeout=10).returncode == 0


def resolved(text: str, folder: Path) -> Path:
    """Return a path of the user: ~ is expanded, relative paths are relative to `folder`."""
    try:
        return folder / Path(text).expanduser()
    except RuntimeError:
        return folder / text


def _declared_path(*owners: Any) -> str | None:
    """Return the PATH that the nearest owner declares, if any."""
    for owner in reversed(owners):
        if owner is not None and (path := owner.env.get("PATH")) is not None:
            return path
    return None


def _missing(command: str, folder: Path, path: str) -> str:
    if "\0" in command:
        return ""
    if "/" not in command:
        literal = f" ({quoted(path, 30)}, which no shell expands)" if "$" in path else ""
        return "" if shutil.which(command, path=path) else f"no such command on PATH{literal}"
    file = folder / command
    if not file.exists():
        return "no such file"
    return "" if os.access(file, os.X_OK) and file.is_file() else "not an executable file"


def _not_a_folder(path: Path) -> str:
    try:
        if not path.is_dir():
            return "it is a file" if path.exists() else "no such folder"
    except (OSError, ValueError) as error:
        return str(error)
    return "" if os.access(path, os.X_OK) else "permission denied"


def digest_key() -> bytes:
    """Return this user's key for digests of secrets; create it if it is missing or unreadable."""
    file = paths.home() / "digest-key"
    paths.new_file(file, secrets.token_hex(32))
    try:
        return files.read(file)
    except OSError:
        files.replace(file, secrets.token_hex(32).encode())
        return files.read(file)
