"""The exact environment of a process, from what it declares and what the caller passes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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
    # A `symphony` in the process finds the experiments of its caller there.
    "SYMPHONY_HOME",
    "XDG_STATE_HOME",
)
# The PATH of a shell that gets none.
DEFAULT_PATH = b"/usr/local/bin:/usr/bin:/bin"
# Shells set these variables themselves, and refuse or change a value from outside.
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
# The variables that no process can set, and why; the plan says it first.
RESERVED: Mapping[str, str] = {
    **dict.fromkeys(sorted(SHELLS_OWN), "the shell sets it itself"),
    MARKER: "it is the mark of the process",
}


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller: its environment as bytes, and the virtual environment of its Python, if any."""

    environ: Mapping[bytes, bytes]
    virtual_env: str = ""


def environment(
    caller: Caller,
    inherit: Iterable[str],
    services: Mapping[str, str],
    declared: Mapping[str, str],
    marker: str,
) -> dict[bytes, bytes]:
    """Return the inherited variables, then those of services, then the declared ones; the marker wins."""
    return passed_on(caller, inherit) | own_variables(services, declared, marker)


def passed_on(caller: Caller, inherit: Iterable[str]) -> dict[bytes, bytes]:
    """Return the lower layer: what comes from the caller, and that Python shows at once what it prints."""
    result = {b"PYTHONUNBUFFERED": b"1"} | inherited(caller.environ, (*INHERITED, *inherit))
    _activate(result, caller.virtual_env)
    return result


def own_variables(
    services: Mapping[str, str], declared: Mapping[str, str], marker: str
) -> dict[bytes, bytes]:
    """Return the variables of the process itself, which win over inherited ones."""
    layers = {ROLE: role(marker), **services, **declared, MARKER: marker}
    return {_bytes(name): _bytes(value) for name, value in layers.items()}


def search_path(caller: Caller) -> str:
    """Return the PATH of a process that declares none."""
    result = environment(caller, (), {}, {}, "").get(b"PATH", DEFAULT_PATH)
    return result.decode("utf-8", "surrogateescape")


def inherited(environ: Mapping[bytes, bytes], patterns: Iterable[str]) -> dict[bytes, bytes]:
    """Return the variables that match a name, or a pattern with a trailing star."""
    allowed = [_bytes(pattern) for pattern in patterns]
    exact = {each for each in allowed if not each.endswith(b"*")}
    heads = tuple(each[:-1] for each in allowed if each.endswith(b"*"))
    return {
        name: value
        for name, value in environ.items()
        if (name in exact or name.startswith(heads)) and _can_be_set(name)
    }


def _activate(environ: dict[bytes, bytes], virtual_env: str) -> None:
    """Put the virtual environment of the program first on PATH, unless the caller has another."""
    if not virtual_env or b"VIRTUAL_ENV" in environ or b"CONDA_PREFIX" in environ:
        return
    environ[b"VIRTUAL_ENV"] = _bytes(virtual_env)
    first = _bytes(virtual_env) + b"/bin"
    others = [part for part in environ.get(b"PATH", DEFAULT_PATH).split(b":") if part != first]
    environ[b"PATH"] = b":".join([first, *others])


def _can_be_set(name: bytes) -> bool:
    text = name.decode("ascii", "replace")
    return text.isidentifier() and text.isascii() and text not in RESERVED


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
