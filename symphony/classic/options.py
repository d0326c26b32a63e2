"""The options of a Cluster by backend, as types, and how what its calls are given is checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypedDict

from symphony.errors import UserError
from symphony.spec.location import caller
from symphony.spec.shared import Text, Texts

Tmux = Literal["tmux"]
Kubernetes = Literal["kubernetes", "kube", "k8s", "gke"]
Backend = Tmux | Kubernetes


class ClusterOptions(TypedDict, total=False):
    """Options of every cluster: what its experiments do not say themselves."""

    preamble_cmds: Texts | None
    start_dir: Text | None


class TmuxOptions(ClusterOptions, total=False):
    """Options of a cluster of tmux."""

    server_name: str | None


class KubeOptions(ClusterOptions, total=False):
    """Options of a cluster of Kubernetes."""

    kubeconfig: str | Path | None
    context: str | None
    image: str | None


def mistake(what: str, remedy: str) -> UserError:
    """The error for the line of the script that is running now."""
    return UserError(what, where=str(caller()), remedy=remedy)


def require_name(kind: str, given: object) -> None:
    """UserError: it is not the name of anything."""
    if not isinstance(given, str):
        raise mistake(f"{given!r:.60} is not the name of {kind}", "Give its name")


def word(option: str, given: Any) -> str | None:
    """A text that says something, or None."""
    if given is None or (isinstance(given, str) and given.strip()):
        return given
    raise mistake(f"{option}={given!r}: must be a non-empty string", "Give a name, or leave it out")


def kubeconfig_path(given: object) -> str | None:
    """The path as every folder understands it. A kubeconfig itself would be read by all in the settings."""
    path = word("kubeconfig", str(given) if isinstance(given, Path) else given)
    if path is None:
        return None
    if "\n" in path or path.lstrip().startswith("{"):
        raise mistake("kubeconfig= is a kubeconfig itself", "Write it to a file and give its path")
    return str(Path(path).expanduser().absolute())


def duration(given: object) -> str | None:
    """How the logs are told since when; kubectl and the original say 0 for all of them."""
    if given is None or (isinstance(given, (int, float)) and not isinstance(given, bool)):
        return f"{given:.3f}" if given else None
    if isinstance(given, str):
        return None if given == "0" else given
    raise mistake(f"since={given!r} is no length of time", "Say seconds, or 90s, 5m, 1h30m, 2d")


def count(given: object) -> int | None:
    """How many of the last lines; None for all."""
    if given is None or (isinstance(given, int) and not isinstance(given, bool) and given >= 0):
        return given
    raise mistake(f"tail={given!r} is no number of lines", "Say 0 or more, or leave it out for all lines")


def path_of(process: str, group: str | None) -> str:
    """`process`, or `group/process`."""
    require_name("a process", process)
    return f"{group}/{process}" if group else process
