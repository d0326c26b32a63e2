"""The options of a Cluster by backend, as types, and the checks of what its calls take."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, cast

from symphony.errors import UserError
from symphony.spec.location import caller
from symphony.spec.shared import Text, Texts

_T = TypeVar("_T")
Tmux = Literal["tmux"]
Kubernetes = Literal["kubernetes", "kube", "k8s", "gke"]


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
    namespace: str | None
    pod_security: Literal["baseline", "restricted", "privileged"] | None
    expose: Literal["ClusterIP", "NodePort", "LoadBalancer"] | None
    source_ranges: str | Sequence[str] | None
    patience: float | None


KUBE_SETTINGS = {
    "kubeconfig": "kubernetes:kubeconfig",
    "context": "kubernetes:context",
    "image": "symphony:image",
    "namespace": "symphony:namespace",
    "pod_security": "symphony:podSecurity",
    "expose": "symphony:expose",
    "source_ranges": "symphony:sourceRanges",
    "patience": "symphony:patience",
}
# What the original called the parameters of a Cluster's methods; `verbose` is what a terminal is.
_OLD_KEYWORDS = {
    "experiment_name": ("name", "exp"),
    "experiment_names": ("names",),
    "experiment_config": ("exp",),
    "experiment_configs": ("experiments",),
    "process_name": ("process",),
    "process_group_name": ("process_group",),
    "service_name": ("service",),
    "src": ("source",),
    "src_path": ("source",),
    "dest": ("target",),
    "dest_path": ("target",),
    "verbose": (),
}


def take_old_keywords(kind: type[_T]) -> type[_T]:
    """Return a class whose methods also take the parameter names of the original."""
    for name, method in vars(kind).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(kind, name, _taking_old_keywords(method))
    return kind


def _taking_old_keywords(method: Callable[..., Any]) -> Callable[..., Any]:
    own = tuple(inspect.signature(method).parameters)

    @wraps(method)
    def call(*words: Any, **given: Any) -> Any:
        for old in [key for key in given if key in _OLD_KEYWORDS and key not in own]:
            value = given.pop(old)
            given.update((new, value) for new in _OLD_KEYWORDS[old] if new in own)
        return method(*words, **given)

    return call


def kube_settings(given: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the options of a KubeCluster as settings of a stack, which checks their values."""
    read = {"kubeconfig": kubeconfig_path, "source_ranges": _joined, "patience": _number}
    return {
        KUBE_SETTINGS[key]: read[key](value) if key in read else word(key, value)
        for key, value in given.items()
    }


def _joined(given: Any) -> str | None:
    if isinstance(given, (list, tuple)):
        return ", ".join(map(str, cast("Sequence[object]", given)))
    return word("source_ranges", given)


def _number(given: Any) -> str | None:
    return None if given is None else str(given)


def mistake(what: str, remedy: str) -> UserError:
    """Return the error for the line of the script that is running now."""
    return UserError(what, where=str(caller()), remedy=remedy)


def require_name(kind: str, given: object) -> None:
    """Raise UserError where it cannot be a name."""
    if not isinstance(given, str):
        raise mistake(f"{given!r:.60} is not the name of {kind}", "Give its name")


def word(option: str, given: Any) -> str | None:
    """Return a text that is not empty, or None."""
    if given is None or (isinstance(given, str) and given.strip()):
        return given
    raise mistake(f"{option}={given!r}: must be a non-empty string", "Give a name, or leave it out")


def kubeconfig_path(given: object) -> str | None:
    """Return the absolute path. The content of a kubeconfig is refused: the settings would show it."""
    path = word("kubeconfig", str(given) if isinstance(given, Path) else given)
    if path is None:
        return None
    if "\n" in path or path.lstrip().startswith("{"):
        raise mistake("kubeconfig= is the content of a kubeconfig", "Write it to a file and give its path")
    return str(Path(path).expanduser().absolute())


def duration(given: object) -> str | None:
    """Return the age of the oldest log line; 0 stands for all lines, as for kubectl and the original."""
    if given is None or (isinstance(given, (int, float)) and not isinstance(given, bool)):
        return f"{given:.3f}" if given else None
    if isinstance(given, str):
        return None if given == "0" else given
    raise mistake(f"since={given!r} is not a duration", "Write seconds, or 90s, 5m, 1h30m, 2d")


def count(given: object) -> int | None:
    """Return the number of the last lines; None for all."""
    if given == -1:
        return None
    if given is None or (isinstance(given, int) and not isinstance(given, bool) and given >= 0):
        return given
    raise mistake(f"tail={given!r} is not a number of lines", "Give 0 or more, or leave it out for all lines")


def path_of(process: str, group: str | None) -> str:
    """`process`, or `group/process`."""
    require_name("a process", process)
    return f"{group}/{process}" if group else process
