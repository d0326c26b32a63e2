"""Options of a Cluster by backend, and checks of the arguments of its calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, cast

from symphony.components.errors import usage_error
from symphony.spec.shared import Text, Texts

_T = TypeVar("_T")
Tmux = Literal["tmux"]
Kubernetes = Literal["kubernetes", "kube", "k8s", "gke"]


class ClusterOptions(TypedDict, total=False):
    """Options of every cluster: defaults of its experiments."""

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
# The original Symphony's names of parameters; `verbose` does nothing here: a terminal shows the progress.
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
    def call(*words: Any, **keywords: Any) -> Any:
        for old in [key for key in keywords if key in _OLD_KEYWORDS and key not in own]:
            argument = keywords.pop(old)
            keywords.update((new, argument) for new in _OLD_KEYWORDS[old] if new in own)
        return method(*words, **keywords)

    return call


def kube_settings(options: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the options of a KubeCluster as settings of a stack, which checks their values."""
    settings = {name: _setting(name, value) for name, value in options.items()}
    return {KUBE_SETTINGS[name]: setting for name, setting in settings.items()}


def _setting(option: str, value: Any) -> str | None:
    if option == "kubeconfig":
        return _kubeconfig_path(value)
    if option == "source_ranges" and isinstance(value, (list, tuple)):
        return ", ".join(map(str, cast("Sequence[object]", value)))
    if option == "patience":
        return None if value is None else str(value)
    return _word(option, value)


def require_name(kind: str, name: object) -> None:
    """Raise UserError if it is not text."""
    if not isinstance(name, str):
        raise usage_error(f"{name!r:.60} is not the name of {kind}", "Give its name")


def _word(option: str, text: Any) -> str | None:
    """Return a text that is not empty, or None."""
    if text is None or (isinstance(text, str) and text.strip()):
        return text
    raise usage_error(f"{option}={text!r}: must be a non-empty string", "Give a name, or leave it out")


def _kubeconfig_path(path: object) -> str | None:
    """Return the absolute path. The content of a kubeconfig is refused: the settings would show it."""
    text = _word("kubeconfig", str(path) if isinstance(path, Path) else path)
    if text is None:
        return None
    if "\n" in text or text.lstrip().startswith("{"):
        raise usage_error(
            "kubeconfig= is the content of a kubeconfig", "Write it to a file and give its path"
        )
    return str(Path(text).expanduser().absolute())


def duration(since: object) -> str | None:
    """Return the maximum age of log lines; 0 stands for all lines, as for kubectl and the original."""
    if since is None or (isinstance(since, (int, float)) and not isinstance(since, bool)):
        return f"{since:.3f}" if since else None
    if isinstance(since, str):
        return None if since == "0" else since
    raise usage_error(f"since={since!r} is not a duration", "Write seconds, or 90s, 5m, 1h30m, 2d")


def count(tail: object) -> int | None:
    """Return the number of the last lines; None for all."""
    if tail == -1:
        return None
    if tail is None or (isinstance(tail, int) and not isinstance(tail, bool) and tail >= 0):
        return tail
    remedy = "Give 0 or more, or leave it out for all lines"
    raise usage_error(f"tail={tail!r} is not a number of lines", remedy)


def path_of(process: str, group: str | None) -> str:
    """Return `process`, or `group/process`."""
    require_name("a process", process)
    return f"{group}/{process}" if group else process
