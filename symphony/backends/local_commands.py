"""Checks that files, folders and commands of a declaration exist on this machine or a shared disk."""

import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from symphony import files, paths
from symphony.backends import local_files
from symphony.plan.names import quoted
from symphony.plan.problems import Problem
from symphony.plan.rules import dependencies_of
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec, path_of
from symphony.spec.process import ProcessSpec
from symphony_tmux.processes import launch_file

# Interpreter -> the suffix of its scripts.
_SCRIPTS = {"python": ".py", "sh": ".sh", "bash": ".sh", "perl": ".pl"}
# Shell syntax: quotes, variables, patterns, assignments and redirections.
_SHELL_SYNTAX = re.compile(r"""[^\w\s./:,@%+=-]|^\s*\w+=""")

_CHECK_COMMAND = "check the command's spelling and PATH"


def unusable(spec: ExperimentSpec, folder: Path) -> dict[str, str]:
    """Return the secret and config files and start folders that cannot be used, and why."""
    _, reasons = local_files.sizes(spec)
    owners: list[Any] = [spec, *spec.groups, *(process for _, process in spec.members())]
    for start_dir in {owner.start_dir for owner in owners if owner.start_dir}:
        if why := _not_a_folder(resolve_path(start_dir, folder)):
            reasons[start_dir] = why
    return reasons


def unstartable(spec: ExperimentSpec, folder: Path, path: str) -> dict[str, str]:
    """Return the processes whose command is missing or not executable, with the reason; path: their PATH."""
    reasons: dict[str, str] = {}
    # Replicas have the same command.
    why_missing = cache(_why_missing)
    for group, process, start_dir, process_path in _without_preamble(spec, folder, path):
        if process.cmds or not process.command or not process.command[0] or _may_be_made(group, process):
            continue
        if why := why_missing(process.command[0], start_dir, process_path):
            reasons[path_of(group, process)] = why
    return reasons


def _may_be_made(group: ProcessGroupSpec | None, process: ProcessSpec) -> bool:
    """Return whether the command is a file that another process may make before this one starts."""
    is_file = bool(process.command) and "/" in str(process.command[0])
    ends = (wait for wait in dependencies_of(group, process) if wait.condition in ("completed", "ended"))
    return is_file and any(ends)


def _without_preamble(
    spec: ExperimentSpec, folder: Path, path: str
) -> Iterator[tuple[ProcessGroupSpec | None, ProcessSpec, Path, str]]:
    """Yield (group, process, start folder, PATH) of processes without a preamble, which may change PATH."""
    for group, process in spec.members():
        if not (spec.preamble_cmds or process.preamble_cmds or (group and group.preamble_cmds)):
            start_dir = process.start_dir or (group.start_dir if group else None) or spec.start_dir or ""
            yield (
                group,
                process,
                resolve_path(start_dir, folder),
                _declared_path(spec, group, process) or path,
            )


def missing_programs(
    spec: ExperimentSpec, folder: Path, path: str, notify: Sequence[str] = ()
) -> Iterator[Problem]:
    """Yield a remark, which stops no `up`, on each program and script that does not exist.

    Args:
        spec: The experiment.
        folder: The folder to which relative paths are relative.
        path: The PATH of the processes.
        notify: The command of symphony:notify.
    """
    if notify and (why := _why_missing(notify[0], folder, path)):
        yield Problem(f"symphony:notify runs {notify[0]}: {why}", _CHECK_COMMAND)
    for group, process, start_dir, process_path in _without_preamble(spec, folder, path):
        name, setting = path_of(group, process), "cmds" if process.cmds else "args"
        words = _plain_words(process.cmds[0]) if process.cmds else [*(process.command or ()), *process.args]
        for key in ("readiness_probe", "liveness_probe"):
            check = getattr(process, key).exec if getattr(process, key) else None
            if check and (why := _why_missing(check[0], start_dir, process_path)):
                yield Problem(f"{key} of {name} runs {check[0]}: {why}", _CHECK_COMMAND, (process.at(key),))
        if not words:
            continue
        # Any other missing `command` stops the `up`: `unstartable` reports it.
        is_checked = process.cmds or _may_be_made(group, process)
        why = _why_missing(words[0], start_dir, process_path) if is_checked else ""
        if why and not _is_shell_word(words[0]):
            what = f"{name} runs {words[0]}: {why}"
            yield Problem(what, _CHECK_COMMAND, (process.at(setting),))
        elif (file := _script(words)) and not os.path.lexists(start_dir / file):
            missing = "does not exist" if file.startswith("/") else "is not in its start folder"
            what = f"{name} runs {file}, which {missing}"
            yield Problem(what, "check the file's name, or set start_dir", (process.at(setting),))


def _plain_words(line: str) -> list[str]:
    """Return the words of a shell line without `exec`; empty if the line has shell syntax."""
    words = [] if _SHELL_SYNTAX.search(line) else line.split()
    return words[1:] if words[:1] == ["exec"] else words


def _script(words: Sequence[str]) -> str:
    """Return FILE.py of `python -u FILE.py ARG`, the script of a shell or of perl, or an empty string."""
    suffix = _SCRIPTS.get(Path(words[0]).name.rstrip("0123456789."))
    if suffix is None or {"-m", "-c", "-e"} & set(words):
        return ""
    file = next((word for word in words[1:] if not word.startswith("-")), "")
    return file if file.endswith(suffix) else ""


@cache
def _is_shell_word(word: str) -> bool:
    """Return whether a word is a builtin, keyword or function of the shell, not a program on PATH."""
    command = [launch_file.bash(), "-c", 'type -t -- "$1"', "sh", word]
    kind = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=10).stdout.strip()
    return kind not in (b"", b"file")


def resolve_path(text: str, folder: Path) -> Path:
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


def _why_missing(command: str, folder: Path, path: str) -> str:
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
