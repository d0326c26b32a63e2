"""The environment of a process: declared, inherited and service variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from symphony_tmux.names import MARKER, ROLE, role

INHERITED = (
    "PATH",
    "HOME",
    "USER",
    "SHELL",
    "LANG",
    "LC_*",
    "TZ",
    "TERM",
    "VIRTUAL_ENV",
    "CONDA_*",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "CUDA_*",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    # So that a `symphony` in the process finds the experiments of its caller.
    "SYMPHONY_HOME",
    "XDG_STATE_HOME",
)
# The PATH that a shell uses if its environment has none.
DEFAULT_PATH = b"/usr/local/bin:/usr/bin:/bin"
# Shells set these variables themselves, and ignore or change an inherited value.
SHELLS_OWN = frozenset(
    [
        "_",
        "BASHOPTS",
        "BASHPID",
        "BASH_ALIASES",
        "BASH_ARGC",
        "BASH_ARGV",
        "BASH_CMDS",
        "BASH_COMMAND",
        "BASH_LINENO",
        "BASH_SOURCE",
        "BASH_SUBSHELL",
        "BASH_VERSINFO",
        "DIRSTACK",
        "EUID",
        "FUNCNAME",
        "GROUPS",
        "LINENO",
        "OLDPWD",
        "OPTIND",
        "PIPESTATUS",
        "PPID",
        "PWD",
        "RANDOM",
        "SECONDS",
        "SHELLOPTS",
        "SHLVL",
        "UID",
        "EPOCHSECONDS",
        "EPOCHREALTIME",
        "SRANDOM",
        "HISTCMD",
    ]
)
# Variables that a process cannot set, and the reasons; the plan refuses them.
RESERVED: Mapping[str, str] = {
    **dict.fromkeys(sorted(SHELLS_OWN), "the shell sets it itself"),
    MARKER: "symphony identifies the process by it",
}


class Caller(msgspec.Struct, frozen=True):
    """The command or script of the user that starts the process.

    Attributes:
        environ: Its environment variables.
        virtual_env: The folder of the virtual environment that its Python runs in, if any.
    """

    environ: Mapping[bytes, bytes]
    virtual_env: str = ""


def environment(
    caller: Caller,
    inherit: Iterable[str],
    services: Mapping[str, str],
    declared: Mapping[str, str],
    marker: str,
) -> dict[bytes, bytes]:
    """Return the inherited variables, overridden by those of services, the declared ones and the marker."""
    return caller_variables(caller, inherit) | own_variables(services, declared, marker)


def caller_variables(caller: Caller, inherit: Iterable[str]) -> dict[bytes, bytes]:
    """Return the variables from the caller, and PYTHONUNBUFFERED."""
    result = {b"PYTHONUNBUFFERED": b"1"} | inherited(caller.environ, (*INHERITED, *inherit))
    _activate(result, caller.virtual_env)
    return result


def own_variables(
    services: Mapping[str, str], declared: Mapping[str, str], marker: str
) -> dict[bytes, bytes]:
    """Return the variables of the process itself, which override inherited ones.

    A declaration may override SYMPHONY_ROLE, the name of the process.
    """
    layers = {ROLE: role(marker), **services, **declared, MARKER: marker}
    return {_bytes(name): _bytes(value) for name, value in layers.items()}


def search_path(caller: Caller) -> str:
    """Return the PATH of a process that declares none."""
    result = environment(caller, (), {}, {}, "").get(b"PATH", DEFAULT_PATH)
    return result.decode("utf-8", "surrogateescape")


def inherited(environ: Mapping[bytes, bytes], patterns: Iterable[str]) -> dict[bytes, bytes]:
    """Return the variables that match a name, or a pattern with a trailing star."""
    allowed = [_bytes(pattern) for pattern in patterns]
    exact = {pattern for pattern in allowed if not pattern.endswith(b"*")}
    prefixes = tuple(pattern[:-1] for pattern in allowed if pattern.endswith(b"*"))
    return {
        name: value
        for name, value in environ.items()
        if (name in exact or name.startswith(prefixes)) and _can_be_set(name)
    }


def _activate(environ: dict[bytes, bytes], virtual_env: str) -> None:
    """Put the virtual environment of the program first on PATH, unless another one is active."""
    if not virtual_env or b"VIRTUAL_ENV" in environ or b"CONDA_PREFIX" in environ:
        return
    environ[b"VIRTUAL_ENV"] = _bytes(virtual_env)
    bin_folder = _bytes(virtual_env) + b"/bin"
    other_folders = [part for part in environ.get(b"PATH", DEFAULT_PATH).split(b":") if part != bin_folder]
    environ[b"PATH"] = b":".join([bin_folder, *other_folders])


def _can_be_set(name: bytes) -> bool:
    text = name.decode("ascii", "replace")
    return text.isidentifier() and text.isascii() and text not in RESERVED


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
