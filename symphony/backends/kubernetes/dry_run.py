"""Asks the API server whether it would accept the pods of a plan, before anything is created.

Each distinct pod is sent as a dry run to the experiment's namespace, or, before that exists, to `default`,
where only the pod itself is judged. Refusals are reported with the line of the user's program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from symphony.backends.kubernetes.api.client import METRICS_API, Client, Forbidden, Refused, path_of
from symphony.backends.kubernetes.api.fields import Values, listing, mapping, text
from symphony.backends.kubernetes.manifests import workloads
from symphony.backends.kubernetes.manifests.render import Manifests
from symphony.placement.quantities import QUANTITY_REMEDY
from symphony.plan.names import as_label, nearest
from symphony.plan.problems import Problem
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony.spec.location import Location
from symphony.spec.process import ProcessSpec

# Without Strict the server drops unknown fields silently.
_QUERY: Mapping[str, str | int] = {"dryRun": "All", "fieldValidation": "Strict"}
_CONCURRENT_REQUESTS = 8
_DEFAULT = "default"
# The field of a pod -> the setting that usually sets it.
_SETTINGS = (
    ("resources.requests", "resource_request"),
    ("resources.limits", "resource_limit"),
    ("image", "image"),
    ("env", "env"),
    ("nodeSelector", "node_selector"),
    ("tolerations", "tolerations"),
    ("metadata.labels", "labels"),
    ("restartPolicy", "restart_policy"),
)
_TYPES = {"string": "a string", "[]string": "a list of strings", "bool": "true or false"}
_CONTAINER = re.compile(r"^spec\.(?:containers|initContainers)\[(\d+)\]\.?")
_UNKNOWN = re.compile(r'(unknown|duplicate) field "([^"]+)"')
_WRONG_TYPE = re.compile(r"cannot unmarshal (\S+) into Go struct field \w+\.(\S+) of type (\S+)")
_QUANTITY = "quantities must match"
# A refusal that may be over when the running pods have ended.
_TEMPORARY = "exceeded quota"

_Part = ProcessSpec | ProcessGroupSpec
# The placeholder for the name of the field in a sentence.
_FIELD = "{field}"


def check(client: Client, namespace: str, manifests: Manifests, spec: ExperimentSpec) -> list[Problem]:
    """Return a problem for each field of the pods that the API server would refuse."""
    pods = {name: workloads.pod_in(manifest) for name, (_, manifest) in manifests.pods.items()}
    by_shape: dict[str, list[str]] = {}
    for name, pod in pods.items():
        by_shape.setdefault(_shape(pod), []).append(name)
    firsts = [names[0] for names in by_shape.values()]
    with ThreadPoolExecutor(max_workers=_CONCURRENT_REQUESTS) as executor:
        refusals = [executor.submit(_refusal, client, namespace, pods[name]) for name in firsts]
    parts: dict[str, _Part] = {as_label(part.name): part for part in (*spec.processes, *spec.groups)}
    return [
        problem
        for names, future in zip(by_shape.values(), refusals, strict=True)
        if (refusal := future.result()) is not None
        for name in names
        for problem in _problems(refusal, pods[name], parts[name])
    ]


def check_metrics(client: Client, spec: ExperimentSpec) -> list[Problem]:
    """Return a problem if idle_after is set and the cluster does not measure its pods."""
    if spec.idle_after is None:
        return []
    try:
        client.request("GET", METRICS_API)
    except Refused as refused:
        if refused.status == 404:
            what = "the experiment sets idle_after, which needs the metrics API, and the cluster has none"
            remedy = "install metrics-server in it, or set stop_after in place of idle_after"
            return [Problem(what, remedy, (spec.at("idle_after"),))]
    return []


def _refusal(client: Client, namespace: str, pod: Values) -> Refused | None:
    """Return the server's refusal of a pod; None if it accepts the pod or cannot judge it now."""
    try:
        _send(client, namespace, pod)
    except Forbidden as refused:
        # Rules of `default` do not apply; `up` reports that the user may not create pods.
        is_ignored = _TEMPORARY in refused.what or "cannot create resource" in refused.what
        return None if is_ignored or namespace == _DEFAULT else refused
    except Refused as refused:
        if refused.status == 404 and namespace != _DEFAULT:
            return _refusal(client, _DEFAULT, pod)
        is_final = refused.status in (413, 422) or (refused.status == 400 and "dry run" not in refused.what)
        return refused if is_final else None
    return None


def _send(client: Client, namespace: str, pod: Values) -> None:
    metadata = {name: pod["metadata"][name] for name in ("labels", "annotations")}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "generateName": "symphony-dry-run-"},
        "spec": pod["spec"],
    }
    client.request("POST", path_of("pods", namespace), _QUERY, body)


def _shape(pod: Values) -> str:
    """Return the pod without the fields in which equal workers differ: names, arguments, values, as text."""
    spec = dict(pod["spec"])
    names: list[str] = []
    for kind in ("containers", "initContainers"):
        shapes: list[dict[str, Any]] = []
        for container in listing(spec, kind):
            names.append(text(container, "name"))
            env = [
                {**variable, "value": _without_strings(variable.get("value"))}
                for variable in listing(container, "env")
            ]
            argv = {name: _without_strings(container.get(name)) for name in ("command", "args")}
            # Containers with equal names keep equal names.
            shapes.append({**container, **argv, "env": env, "name": names.index(names[-1])})
        spec[kind] = shapes
    pod_labels = mapping(pod, "metadata", "labels")
    user_labels = {key: label for key, label in pod_labels.items() if not key.startswith("symphony/")}
    return json.dumps([spec, user_labels], sort_keys=True, default=str)


def _without_strings(field: Any) -> Any:
    if isinstance(field, list):
        return [entry for entry in cast("list[Any]", field) if not isinstance(entry, str)]
    return "" if isinstance(field, str) else field


def _problems(refused: Refused, pod: Values, part: _Part) -> Iterator[Problem]:
    for field, what, remedy in _complaints(refused):
        setting, where, short = _find_setting(field, pod, part)
        yield Problem(f"{setting} {what.replace(_FIELD, short)}", remedy, (where,))


def _complaints(refused: Refused) -> Iterator[tuple[str, str, str]]:
    """Yield (refused field, end of a sentence about it, remedy)."""
    if unknown := _UNKNOWN.findall(refused.what):
        for why, field in unknown:
            article = "an" if why == "unknown" else "a"
            yield field, f"sets {_FIELD}, which is {article} {why} field", _nearest(field)
    elif match := _WRONG_TYPE.search(refused.what):
        kind, field, type_ = match.groups()
        expected = _TYPES.get(type_, "a whole number" if type_.startswith("int") else "a mapping or a list")
        yield field, f"sets {_FIELD} to a {kind}", f"give {expected}"
    elif _QUANTITY in refused.what:
        yield "resources", "has a quantity that Kubernetes cannot read", QUANTITY_REMEDY
    elif refused.causes:
        for field, why in dict.fromkeys(refused.causes):
            explain = re.sub(r"\[[^\]]*\]", "", field)
            yield field, f"sets {_FIELD}: {why}", f"see `kubectl explain pod.{explain}`"
    else:
        why = refused.what.partition("is forbidden: ")[2] or refused.what
        level = re.search(r'violates PodSecurity "(\w+)', why)
        remedy = (
            f"set symphony:podSecurity: {level[1]}" if level else "change the pod to what the cluster allows"
        )
        yield "", f"is refused by the cluster: {why}", remedy


def _find_setting(field: str, pod: Values, part: _Part) -> tuple[str, Location, str]:
    """Return (setting or process of a field, its line, name of the field in it)."""
    short, process = field.removeprefix("spec."), None
    if match := _CONTAINER.match(field):
        short, process = field[match.end() :], _process(pod, field, int(match[1]), part)
    elif isinstance(part, ProcessSpec):
        process = part
    top = re.split(r"[.\[]", short)[0]
    if process is not None and top in process.container_yml:
        return f"container_yml of {_path(process, part)}", process.at("container_yml"), short
    owners: Sequence[_Part] = [process, part] if process is not None else [part]
    for start, setting in _SETTINGS:
        setters = [owner for owner in owners if any(key.split(" ")[0] == setting for key in owner.lines)]
        if short.startswith(start) and setters:
            return _path(setters[0], part), setters[0].at(setting), short
    # A refusal without a field, such as by a quota or a policy, may concern any setting.
    if part.pod.pod_yml and field:
        return f"pod_yml of {_path(part, part)}", part.at("pod_yml"), field
    return _path(part, part), part.where, short


def _path(owner: _Part, part: _Part) -> str:
    if isinstance(part, ProcessSpec):
        return part.name
    return f"process group {part.name}" if owner is part else f"{part.name}/{owner.name}"


def _process(pod: Values, field: str, index: int, part: _Part) -> ProcessSpec | None:
    """Return the process whose container a field is in; None if pod_yml added the container."""
    containers = listing(pod, "spec", "initContainers" if "initContainers" in field else "containers")
    name = text(containers[index], "name") if index < len(containers) else ""
    processes = [part] if isinstance(part, ProcessSpec) else part.processes
    return next((process for process in processes if as_label(process.name) == name), None)


def _nearest(field: str) -> str:
    """Return the remedy for an unknown field, with the most similar field that the official client knows."""
    from kubernetes.client import V1Container, V1PodSpec

    model: Any = V1Container if _CONTAINER.match(field) else V1PodSpec
    near = nearest(field.rpartition(".")[2], model.attribute_map.values())
    return f'did you mean "{near}"?' if near else "remove it, or correct its name"
