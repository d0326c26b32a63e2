"""The launch file of a process, the only place where user text becomes shell code."""

from __future__ import annotations

import os
import pwd
import re
import resource
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from symphony import files, paths
from symphony_tmux import gpus, names
from symphony_tmux.processes.environment import Caller, caller_variables, own_variables

if TYPE_CHECKING:
    from symphony_tmux.resource.inputs import ProcessInputs

# The variables that tmux and its server set in a pane.
PANE_VARIABLES = (
    b"TMUX TMUX_PANE TERM TERM_PROGRAM TERM_PROGRAM_VERSION COLORTERM PATH HOME USER SHELL"
    b" LOGNAME LANG OLDPWD"
)

# The variable with the stem of the rendezvous service of equal workers.
RENDEZVOUS = "SYMPHONY_RENDEZVOUS"
# In the folder of a process: the failed lines of cmds and preamble_cmds, for `symphony why`.
FAILED_LINES = "failed-lines"
# The beginning of the report of a failed line of cmds, which process_logs.last_lines leaves out.
NOTE = b"[symphony: line "
# A failing line of preamble_cmds ends the process, which would run in the wrong environment. After a failing
# line of cmds the next line runs, as in any shell. Each failing line is reported once per start.
_ERROR_TRAP = r"""
_symphony_told= _symphony_file=FILE; { : >"$_symphony_file"; } 2>/dev/null
_symphony_tell() { [[ $3 != 1 || $_symphony_told == *" $2 "* ]] || {
_symphony_told+=" $2 "
printf -v _symphony_line 'line %d failed with exit %d: %s' $(($2 - _symphony_before)) "$1" "${4%%$'\n'*}"
[[ $_symphony_after != exit ]] || _symphony_line="preamble_cmds $_symphony_line (append || true to ignore it)"
printf '[symphony: %s]\n' "$_symphony_line" >&2
{ printf '%s\n' "$_symphony_line" >>"$_symphony_file"; } 2>/dev/null
[[ $_symphony_after != exit ]] || exit "$1"; }; }
trap '_symphony_tell "$?" "$LINENO" "${#BASH_SOURCE[@]}" "$BASH_COMMAND"' ERR
""".strip()


def content(
    inputs: ProcessInputs, marker: str, caller: Caller, sourced: Sequence[Path], process_folder: Path
) -> bytes:
    """Return a shell script that sets the environment, changes to the folder and executes the process.

    marker: the value of SYMPHONY_ID, by which symphony identifies the process and its children.
    sourced: files with more variables, which override inherited ones.
    process_folder: the folder for the report of failed lines.
    """
    lines = [b"# Written by symphony for every start of this process. The supervisor first sets:"]
    lines += [*_limits_for_the_supervisor(), *_limits()]
    lines += [b"unset " + PANE_VARIABLES]
    lines += _exports(caller_variables(caller, inputs.inherit))
    lines += [b". " + quote(os.fsencode(file)) + b" || exit 125" for file in sourced]
    lines += _exports(own_variables(inputs.services, inputs.env, marker))
    if stem := inputs.services.get(RENDEZVOUS):
        # The address may differ from the plan.
        lines += [f'export MASTER_ADDR="${stem}_HOST" MASTER_PORT="${stem}_PORT"'.encode()]
    if inputs.env.get(gpus.VARIABLE):
        lines += _gpus(inputs, process_folder)
    lines += [b"cd " + quote(_bytes(inputs.cwd or str(Path.home()))) + b" || exit 125", b"unset OLDPWD"]
    if shell(inputs) == bash() != "/bin/sh":
        # Otherwise bash sets COLUMNS and LINES after the first command.
        lines += [b"shopt -u checkwinsize"]
        failed_lines_file = quote(os.fsencode(process_folder / FAILED_LINES))
        lines += _ERROR_TRAP.encode().replace(b"FILE", failed_lines_file).splitlines()
        lines += [_section(_count(lines), ends=True), *map(_bytes, inputs.preamble)]
        lines += [_section(_count(lines), ends=False), *map(_bytes, inputs.script)]
    else:
        lines += map(_bytes, (*inputs.preamble, *inputs.script))
    if inputs.argv:
        lines += [b"exec " + b" ".join(quote(_bytes(word)) for word in inputs.argv)]
    return b"\n".join(lines) + b"\n"


def _gpus(inputs: ProcessInputs, folder: Path) -> list[bytes]:
    """Return the lines that wait for GPUs, execute this file again, and then export the GPUs."""
    session, path = folder.parents[1].name.rpartition(".")[2], folder.name.replace(".", "/")
    variable = f"{gpus.FOLDER_VARIABLE}={gpus.folder()}"
    words = ("env", variable, sys.executable, "-P", "-m", "symphony_tmux.gpus")
    holder = f"{_user()}/{session}/{path}"
    file = folder / names.LAUNCH_FILE
    gpu_command = (*words, inputs.env[gpus.VARIABLE], holder, str(folder), shell(inputs), str(file))
    command = b" ".join(quote(os.fsencode(word)) for word in gpu_command)
    # `symphony process` must not show it as running before gpus.py has claimed them.
    note = quote(os.fsencode(folder / gpus.NOTE))
    return [
        f'[ "${gpus.HOLDER}" = "$$" ] || echo "{names.NOT_CLAIMED}" >'.encode() + note,
        f'[ "${gpus.HOLDER}" = "$$" ] || exec '.encode() + command,
        f'export CUDA_VISIBLE_DEVICES="${gpus.TAKEN}" CUDA_DEVICE_ORDER=PCI_BUS_ID'.encode(),
        f"unset {gpus.HOLDER} {gpus.TAKEN}".encode(),
    ]


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _section(before: int, *, ends: bool) -> bytes:
    """Return the line in front of user lines; before: the number of lines above it."""
    return b"_symphony_before=%d _symphony_after=%s" % (before + 1, b"exit" if ends else b"continue")


def _count(lines: Sequence[bytes]) -> int:
    return b"\n".join(lines).count(b"\n") + 1


def failed_lines(folder: Path) -> list[str]:
    """Return the failed lines of the last start of the process with this folder."""
    try:
        return files.read(folder / FAILED_LINES).decode(errors="replace").splitlines()
    except OSError:
        return []


def export(name: bytes, value: bytes) -> bytes:
    """Return the line that exports a variable."""
    return b"export " + name + b"=" + quote(value)


def quote(text: bytes) -> bytes:
    """Quote bytes as one shell word; all quoting of the providers is done here."""
    return b"'" + text.replace(b"'", b"'\\''") + b"'"


def shell(inputs: ProcessInputs) -> str:
    """Return bash, if it exists, for user lines (they may use `source`), else /bin/sh."""
    return bash() if inputs.preamble or inputs.script else "/bin/sh"


def caller() -> Caller:
    """Return the environment of this process, which is that of the user's command."""
    is_virtual_env = sys.prefix != sys.base_prefix
    return Caller(dict(os.environb), sys.prefix if is_virtual_env else "")


@lru_cache(maxsize=1)
def bash() -> str:
    """Return the shell that runs user lines."""
    return shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin:/opt/homebrew/bin") or "/bin/sh"


def _exports(variables: Mapping[bytes, bytes]) -> list[bytes]:
    return [export(name, value) for name, value in sorted(variables.items())]


def _limits_for_the_supervisor() -> list[bytes]:
    """Return the limits of this process as comments for the supervisor."""
    result = [f"nice {os.getpriority(os.PRIO_PROCESS, 0)}"]
    if hasattr(os, "sched_getaffinity"):
        result += [" ".join(["cpus", *map(str, sorted(os.sched_getaffinity(0)))])]
    for number in sorted({*limit_numbers().values()}):
        soft, hard = (value % (1 << 64) for value in resource.getrlimit(number))
        result += [f"limit {number} {soft} {hard}"]
    return [f"# {line}".encode() for line in result]


def limit_numbers() -> dict[str, int]:
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {name.removeprefix("RLIMIT_"): getattr(resource, name) for name in names}


def _limits() -> list[bytes]:
    """Return the lines that restore the caller's limits and umask, which differ in the tmux server."""
    open_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    core = resource.getrlimit(resource.RLIMIT_CORE)[0]
    lines = [f"ulimit -S -n {_limit(open_files)} 2>/dev/null", f"ulimit -S -c {_limit(core)} 2>/dev/null"]
    return [line.encode() for line in (*lines, f"umask {_mask()}")]


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def _mask() -> str:
    """Return the caller's umask: symphony runs the engine with umask 077, and the original in a variable."""
    if re.fullmatch(r"0?[0-7]{3}", value := os.environ.get("SYMPHONY_UMASK", "")):
        return value
    return f"{paths.umask():04o}"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
