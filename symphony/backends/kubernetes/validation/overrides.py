"""What a user wrote into pod_yml and container_yml, judged before it is merged. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from symphony.backends.kubernetes.api.fields import Values, mapping, texts
from symphony.backends.kubernetes.manifests import labels
from symphony.plan.names import nearest, shown

# What was done, as `pod_yml of agent sets ...` goes on, and what to do instead.
Mistake = tuple[str, str]
_PRIVILEGED = "leave it out, or allow it with the config symphony:podSecurity privileged"
# The one capability that the strictest Pod Security level allows.
_HARMLESS = ("NET_BIND_SERVICE",)
# What takes a container out of its box; `privileged` is the Pod Security level that allows it.
_DANGEROUS = (
    *("privileged", "hostNetwork", "hostPID", "hostIPC", "hostPath", "hostPort", "procMount"),
    *("allowPrivilegeEscalation", "automountServiceAccountToken", "serviceAccountToken"),
)
_HARMLESS_VALUES: tuple[Any, ...] = (False, None, 0, "", "Default")
_OWN_NOTES = (labels.MANAGED_BY, *labels.EXISTS)

_MAPPING, _LIST, _TEXT, _TEXTS = "a mapping", "a list of mappings", "a text", "a list of texts"
_NAMED, _NUMBER, _BOOLEAN = "a list of mappings, each with a name", "a whole number", "true or false"
_ENV, _MOUNTS = "a list of names and texts", "a list of mappings, each with a name and a mountPath"
_CONTAINERS = "a list of containers, each with a name"

_CONTAINER: Mapping[str, str] = {
    **dict.fromkeys(("name", "image", "imagePullPolicy", "workingDir", "restartPolicy"), _TEXT),
    **dict.fromkeys(("terminationMessagePath", "terminationMessagePolicy"), _TEXT),
    **dict.fromkeys(("command", "args"), _TEXTS),
    **dict.fromkeys(("envFrom", "ports", "volumeDevices", "resizePolicy", "restartPolicyRules"), _LIST),
    **dict.fromkeys(("livenessProbe", "readinessProbe", "startupProbe"), _MAPPING),
    **dict.fromkeys(("resources", "lifecycle", "securityContext"), _MAPPING),
    **dict.fromkeys(("stdin", "stdinOnce", "tty"), _BOOLEAN),
    "env": _ENV,
    "volumeMounts": _MOUNTS,
}
_SPEC: Mapping[str, str] = {
    **dict.fromkeys(("containers", "initContainers"), _CONTAINERS),
    **dict.fromkeys(("volumes", "imagePullSecrets", "resourceClaims"), _NAMED),
    **dict.fromkeys(("tolerations", "hostAliases", "readinessGates", "schedulingGates"), _LIST),
    **dict.fromkeys(("topologySpreadConstraints", "ephemeralContainers", "evictionResponders"), _LIST),
    **dict.fromkeys(("affinity", "dnsConfig", "nodeSelector", "os", "overhead"), _MAPPING),
    **dict.fromkeys(("resources", "schedulingGroup", "securityContext"), _MAPPING),
    **dict.fromkeys(("activeDeadlineSeconds", "priority", "terminationGracePeriodSeconds"), _NUMBER),
    **dict.fromkeys(("automountServiceAccountToken", "enableServiceLinks", "hostIPC"), _BOOLEAN),
    **dict.fromkeys(("hostNetwork", "hostPID", "hostUsers", "setHostnameAsFQDN"), _BOOLEAN),
    "shareProcessNamespace": _BOOLEAN,
    **dict.fromkeys(("dnsPolicy", "hostname", "hostnameOverride", "nodeName", "preemptionPolicy"), _TEXT),
    **dict.fromkeys(("priorityClassName", "restartPolicy", "runtimeClassName", "schedulerName"), _TEXT),
    **dict.fromkeys(("serviceAccount", "serviceAccountName", "subdomain"), _TEXT),
}


def of_container(given: Values, *, privileged: bool) -> Iterator[Mistake]:
    """What is wrong with a container_yml; privileged: containers may leave their box."""
    if "name" in given:
        yield "sets name", "leave it out: it is symphony's own"
    yield from _fields({key: each for key, each in given.items() if key != "name"}, _CONTAINER, "")
    if not privileged:
        yield from _dangers(given)


def of_pod(given: Values, *, privileged: bool) -> Iterator[Mistake]:
    """What is wrong with a pod_yml; privileged: containers may leave their box."""
    for name in ("apiVersion", "kind", "status"):
        if name in given:
            yield f"sets {name}", "leave it out: it is symphony's own"
    for name in given:
        if name not in ("apiVersion", "kind", "status", "metadata", "spec"):
            yield f"sets {shown(name)}", "a pod has metadata and spec; most settings belong in spec"
    for name in ("metadata", "spec"):
        if name in given and not isinstance(given[name], Mapping):
            yield f"sets {name} to {shown(given[name])}", f"give {_MAPPING}"
    yield from _metadata(mapping(given, "metadata"))
    spec = mapping(given, "spec")
    if "containers" in spec and spec["containers"] in (None, []):
        yield "takes spec.containers away", "the pod's containers are its processes: keep them"
    yield from _fields(spec, _SPEC, "spec.")
    if not privileged:
        yield from _dangers(spec)


def images(pod: Values) -> Iterator[str]:
    """The images that it names."""
    spec = mapping(pod, "spec")
    every: list[Any] = [pod, *_entries(spec.get("containers")), *_entries(spec.get("initContainers"))]
    for each in every:
        if isinstance(each, Mapping) and isinstance(image := cast("Values", each).get("image"), str):
            yield image


def _metadata(given: Values) -> Iterator[Mistake]:
    for name in ("name", "namespace"):
        if name in given:
            yield f"sets metadata.{name}", "leave it out: it is symphony's own"
    for name in ("labels", "annotations"):
        place = f"metadata.{name}"
        if name not in given:
            continue
        if not isinstance(given[name], Mapping):
            yield f"sets {place} to {shown(given[name])}", f"give {_MAPPING}"
        for key, value in mapping(given, name).items():
            if key.startswith("symphony/") or key in _OWN_NOTES:
                yield f"sets {place} {shown(key)}", "leave it out: it is symphony's own"
            elif value is not None and not isinstance(value, str):
                yield f"sets {place} {shown(key)} to {shown(value)}", f"give {_TEXT}: write it in quotes"


def _fields(given: Values, known: Mapping[str, str], place: str) -> Iterator[Mistake]:
    """Fields of a wrong shape, and misspelt ones. Kubernetes may have fields that we have not heard of."""
    for name, value in given.items():
        if (wanted := known.get(name)) is None:
            if near := nearest(name, known):
                yield f"sets {place}{name}", f'did you mean "{near}"?'
        elif value is not None and not _SHAPES[wanted](value):
            yield f"sets {place}{name} to {shown(value)}", f"give {wanted}"
        elif wanted is _CONTAINERS:
            for each in _entries(value):
                yield from _fields(each, _CONTAINER, f"{place}{name}.{each['name']}.")


def _entries(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _lists(*names: str, texts: bool = False) -> Callable[[Any], bool]:
    """Whether a value is a list of mappings, in each of which these are texts; texts: all others too."""

    def is_one(value: Any) -> bool:
        return isinstance(value, list) and all(fits(each) for each in _entries(value))

    def fits(each: Any) -> bool:
        if not isinstance(each, Mapping) or not all(
            isinstance(mapping(each).get(name), str) for name in names
        ):
            return False
        return not texts or isinstance(mapping(each).get("value"), str | None)

    return is_one


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_SHAPES: Mapping[str, Callable[[Any], bool]] = {
    _MAPPING: lambda value: isinstance(value, Mapping),
    _LIST: _lists(),
    _NAMED: _lists("name"),
    _CONTAINERS: _lists("name"),
    _ENV: _lists("name", texts=True),
    _MOUNTS: _lists("name", "mountPath"),
    _TEXT: lambda value: isinstance(value, str),
    _TEXTS: lambda value: isinstance(value, list) and all(isinstance(each, str) for each in _entries(value)),
    _NUMBER: _is_number,
    _BOOLEAN: lambda value: isinstance(value, bool),
}


def _dangers(given: Any) -> Iterator[Mistake]:
    for name in sorted(set(_dangerous(given))):
        yield f"asks for {name}", _PRIVILEGED


def _dangerous(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, each in cast("Values", value).items():
            if name in _DANGEROUS and each not in _HARMLESS_VALUES:
                yield name
            if name == "seccompProfile" and mapping(each).get("type") == "Unconfined":
                yield "seccompProfile Unconfined"
            if name == "capabilities":
                yield from (f"capability {more}" for more in texts(each, "add") if more not in _HARMLESS)
            yield from _dangerous(each)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _dangerous(each)
