"""Judges what a user wrote into pod_yml and container_yml before it is merged. Pure.

The API server judges the rest (dry_run.py). Here is what may not be changed, what lets a container out of its
box, and the shapes without which the two cannot be merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from symphony.backends.kubernetes.api.fields import Values, mapping, texts
from symphony.backends.kubernetes.manifests import labels
from symphony.plan.names import shown

# The end of a sentence, as `pod_yml of agent sets ...`, and what to do.
Mistake = tuple[str, str]
_OWN = "leave it out: it is symphony's own"
_OWN_NOTES = (labels.MANAGED_BY, *labels.EXISTS)
_PRIVILEGED = "leave it out, or allow it with the config symphony:podSecurity privileged"
# The one capability that the strictest Pod Security level allows.
_HARMLESS = ("NET_BIND_SERVICE",)
# These let a container out of its box; `privileged` is the Pod Security level that allows them.
_DANGEROUS = (
    *("privileged", "hostNetwork", "hostPID", "hostIPC", "hostPath", "hostPort", "procMount"),
    *("allowPrivilegeEscalation", "automountServiceAccountToken", "serviceAccountToken"),
)
_HARMLESS_VALUES: tuple[Any, ...] = (False, None, 0, "", "Default")


def of_container(container: Values, *, privileged: bool) -> Iterator[Mistake]:
    """Yield the mistakes of a container_yml; privileged: containers may leave their box."""
    if "name" in container:
        yield "sets name", _OWN
    yield from _shapes(container, "")
    if not privileged:
        yield from _dangers(container)


def of_pod(pod: Values, *, privileged: bool) -> Iterator[Mistake]:
    """Yield the mistakes of a pod_yml; privileged: containers may leave their box."""
    for name in pod:
        if name in ("apiVersion", "kind", "status"):
            yield f"sets {name}", _OWN
        elif name not in ("metadata", "spec"):
            yield f"sets {shown(name)}", "a pod has metadata and spec; most settings belong in spec"
        elif not isinstance(pod[name], Mapping):
            yield f"sets {name} to {shown(pod[name])}", "give a mapping"
    yield from _metadata(mapping(pod, "metadata"))
    spec = mapping(pod, "spec")
    if "containers" in spec and spec["containers"] in (None, []):
        yield "takes spec.containers away", "the pod's containers are its processes: keep them"
    yield from _shapes(spec, "spec.")
    if not privileged:
        yield from _dangers(spec)


def _metadata(metadata: Values) -> Iterator[Mistake]:
    for name in ("name", "namespace"):
        if name in metadata:
            yield f"sets metadata.{name}", _OWN
    for name in ("labels", "annotations"):
        if name in metadata and not isinstance(metadata[name], Mapping):
            yield f"sets metadata.{name} to {shown(metadata[name])}", "give a mapping"
        for key, value in mapping(metadata, name).items():
            if key.startswith("symphony/") or key in _OWN_NOTES:
                yield f"sets metadata.{name} {shown(key)}", _OWN
            elif value is not None and not isinstance(value, str):
                yield f"sets metadata.{name} {shown(key)} to {shown(value)}", "write it in quotes"


def _entries(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _has(*names: str) -> Callable[[Any], bool]:
    """Return a test for a list of mappings, each of which has texts of these names."""
    return lambda value: (
        isinstance(value, list)
        and all(isinstance(mapping(entry).get(name), str) for entry in _entries(value) for name in names)
    )


_SHAPES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "containers": (_has("name"), "a list of containers, each with a name"),
    "initContainers": (_has("name"), "a list of containers, each with a name"),
    "env": (_has("name"), "a list of variables, each with a name"),
    "volumeMounts": (_has("name", "mountPath"), "a list of mappings, each with a name and a mountPath"),
    "securityContext": (lambda value: isinstance(value, Mapping), "a mapping"),
    "terminationGracePeriodSeconds": (lambda value: type(value) is int, "a whole number"),
}


def _shapes(fields: Values, place: str) -> Iterator[Mistake]:
    for name, (fits, wanted) in _SHAPES.items():
        value = fields.get(name)
        if value is not None and not fits(value):
            yield f"sets {place}{name} to {shown(value)}", f"give {wanted}"
        elif name in ("containers", "initContainers"):
            for container in _entries(value):
                yield from _shapes(container, f"{place}{name}.{container['name']}.")


def _dangers(fields: Any) -> Iterator[Mistake]:
    for name in sorted(set(_dangerous(fields))):
        yield f"asks for {name}", _PRIVILEGED


def _dangerous(fields: Any) -> Iterator[str]:
    if isinstance(fields, Mapping):
        for name, value in cast("Values", fields).items():
            if name in _DANGEROUS and value not in _HARMLESS_VALUES:
                yield name
            if name == "seccompProfile" and mapping(value).get("type") == "Unconfined":
                yield "seccompProfile Unconfined"
            if name == "capabilities":
                yield from (f"capability {more}" for more in texts(value, "add") if more not in _HARMLESS)
            yield from _dangerous(value)
    for value in _entries(fields):
        yield from _dangerous(value)
