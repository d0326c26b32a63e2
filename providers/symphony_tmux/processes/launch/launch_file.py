"""The launch file of a process: the one place where text of the user becomes shell text."""

from __future__ import annotations

import os
import re
import resource
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from symphony import paths
from symphony_tmux import names
from symphony_tmux.processes.launch import failed_lines, limits
from symphony_tmux.processes.launch.environment import Caller, own_variables, passed_on
from symphony_tmux.resource.inputs import WindowInputs

# What the tmux server and tmux itself put into a pane.
PANE_VARIABLES = (
    b"TMUX TMUX_PANE TERM TERM_PROGRAM TERM_PROGRAM_VERSION COLORTERM PATH HOME USER SHELL"
    b" LOGNAME LANG OLDPWD"
)


def content(inputs: WindowInputs, marker: str, caller: Caller, sourced: Sequence[Path]) -> bytes:
    """Return a shell file that sets the exact environment, enters the folder and becomes the process.

    sourced: files with more variables, which win over what is inherited only.
    """
    lines = [b"# Written by symphony for every start of this process. The supervisor sets first:"]
    lines += [*limits.lines(), *_limits()]
    lines += [b"unset " + PANE_VARIABLES]
    lines += _exports(passed_on(caller, inputs.inherit))
    lines += [b". " + quote(os.fsencode(file)) + b" || exit 125" for file in sourced]
    lines += _exports(own_variables(inputs.services, inputs.env, marker))
    lines += [b"cd " + quote(_folder(inputs.cwd)) + b" || exit 125", b"unset OLDPWD"]
    if shell(inputs) == bash() != "/bin/sh":
        # Else COLUMNS and LINES are those of the window after the first command.
        lines += [b"shopt -u checkwinsize"]
        folder = names.process_folder(inputs.server, inputs.session, inputs.path)
        lines += failed_lines.teller(quote(os.fsencode(folder / failed_lines.NAME)))
        lines += [failed_lines.section(_count(lines), ends=True), *map(_bytes, inputs.preamble)]
        lines += [failed_lines.section(_count(lines), ends=False), *map(_bytes, inputs.script)]
    else:
        lines += map(_bytes, (*inputs.preamble, *inputs.script))
    if inputs.argv:
        lines += [b"exec " + b" ".join(quote(_bytes(word)) for word in inputs.argv)]
    return b"\n".join(lines) + b"\n"


def _count(lines: Sequence[bytes]) -> int:
    return b"\n".join(lines).count(b"\n") + 1


def export(name: bytes, value: bytes) -> bytes:
    """Return the line that puts a variable into the environment."""
    return b"export " + name + b"=" + quote(value)


def quote(text: bytes) -> bytes:
    """Return these bytes as one word of a shell; the only quoting of the provider."""
    return b"'" + text.replace(b"'", b"'\\''") + b"'"


def shell(inputs: WindowInputs) -> str:
    """Return bash, where it exists, for lines of the user (`source` needs it), else /bin/sh."""
    return bash() if inputs.preamble or inputs.script else "/bin/sh"


def caller() -> Caller:
    """Return the caller: this process has the environment of whoever typed the command."""
    inside = sys.prefix != sys.base_prefix
    return Caller(dict(os.environb), sys.prefix if inside else "")


@lru_cache(maxsize=1)
def bash() -> str:
    """Return the shell that runs lines of the user."""
    return shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin:/opt/homebrew/bin") or "/bin/sh"


def _exports(variables: Mapping[bytes, bytes]) -> list[bytes]:
    return [export(name, value) for name, value in sorted(variables.items())]


def _limits() -> list[bytes]:
    """Return the lines that set the caller's limits and umask, which the tmux server changed for itself."""
    open_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    core = resource.getrlimit(resource.RLIMIT_CORE)[0]
    lines = [f"ulimit -S -n {_limit(open_files)} 2>/dev/null", f"ulimit -S -c {_limit(core)} 2>/dev/null"]
    return [line.encode() for line in (*lines, f"umask {_mask()}")]


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def _mask() -> str:
    """Return the caller's umask; symphony runs the engine with a closed one and passes on what it was."""
    if re.fullmatch(r"0?[0-7]{3}", value := os.environ.get("SYMPHONY_UMASK", "")):
        return value
    return f"{paths.umask():04o}"


def _folder(cwd: str) -> bytes:
    return _bytes(cwd or str(Path.home()))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
