"""Asks the API server whether it would take the pods of a plan, before anything is made.

Each distinct pod is sent as a dry run, in the namespace of the experiment or, before that exists, in
`default`, where only the pod itself is judged. Answers are told with the line of the user's program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from symphony.backends.kubernetes.api.client import Client, Forbidden, Refused, pods_path
from symphony.backends.kubernetes.api.fields import Values, listing, mapping, text
from symphony.backends.kubernetes.manifests import controllers
from symphony.backends.kubernetes.manifests.render import Manifests
from symphony.placement.quantities import WRITE_ONE
from symphony.plan.names import as_label, nearest
from symphony.plan.problems import Problem
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony.spec.location import Location
from symphony.spec.process import ProcessSpec

# The server drops fields that it does not know without a word, unless it is told to be strict.
_QUERY: Mapping[str, str | int] = {"dryRun": "All", "fieldValidation": "Strict"}
_AT_ONCE = 8
# The field of a pod -> the setting that most often made it.
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
_TYPES = {"string": "a text", "[]string": "a list of texts", "bool": "true or false"}
_CONTAINER = re.compile(r"^spec\.(?:containers|initContainers)\[(\d+)\]\.?")
_UNKNOWN = re.compile(r'(unknown|duplicate) field "([^"]+)"')
_WRONG_TYPE = re.compile(r"cannot unmarshal (\S+) into Go struct field \w+\.(\S+) of type (\S+)")
_QUANTITY = "quantities must match"
# The cluster refuses these now, and perhaps not when the pods that run are gone.
_PASSING = "exceeded quota"

_Part = ProcessSpec | ProcessGroupSpec


def check(client: Client, namespace: str, manifests: Manifests, spec: ExperimentSpec) -> list[Problem]:
    """Return a problem for everything that the API server would refuse of the pods."""
    pods = {name: controllers.pod_in(manifest) for name, (_, manifest) in manifests.pods.items()}
    by_shape: dict[str, list[str]] = {}
    for name, pod in pods.items():
        by_shape.setdefault(_shape(pod), []).append(name)
    firsts = [names[0] for names in by_shape.values()]
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as executor:
        refusals = [executor.submit(_refusal, client, namespace, pods[name]) for name in firsts]
    parts: dict[str, _Part] = {as_label(part.name): part for part in (*spec.processes, *spec.groups)}
    return [
        problem
        for names, future in zip(by_shape.values(), refusals, strict=True)
        if (refusal := future.result()) is not None
        for name in names
        for problem in _problems(refusal, pods[name], parts[name])
    ]


def _refusal(client: Client, namespace: str, pod: Values) -> Refused | None:
    """Return the server's refusal of a pod; None where it takes it, or does not judge it now."""
    try:
        _send(client, namespace, pod)
    except Refused as refused:
        if refused.status != 404:
            return refused if _is_final(refused) else None
    else:
        return None
    try:
        _send(client, "default", pod)
    except Forbidden:
        # The rules of another namespace.
        return None
    except Refused as refused:
        return refused if _is_final(refused) else None
    return None


def _is_final(refused: Refused) -> bool:
    if refused.status == 403:
        # Whether the user may make pods at all, `up` says with its remedy.
        return _PASSING not in refused.what and "cannot create resource" not in refused.what
    return refused.status in (413, 422) or (refused.status == 400 and "dry run" not in refused.what)


def _send(client: Client, namespace: str, pod: Values) -> None:
    metadata = {name: pod["metadata"][name] for name in ("labels", "annotations")}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "generateName": "symphony-dry-run-"},
        "spec": pod["spec"],
    }
    client.request("POST", pods_path(namespace), _QUERY, body)


def _shape(pod: Values) -> str:
    """Return the pod without what tells one worker from the next: names, arguments, values of variables."""
    spec = pod["spec"]
    containers = [*listing(spec, "containers"), *listing(spec, "initContainers")]
    names = [text(container, "name") for container in containers]
    plain = [
        {
            **container,
            # Two of one name stay two of one name.
            "name": names.index(text(container, "name")),
            "command": _plain(container.get("command")),
            "args": _plain(container.get("args")),
            "env": [
                {**variable, "value": _plain(variable.get("value"))} for variable in listing(container, "env")
            ],
        }
        for container in containers
    ]
    labels = {
        key: value
        for key, value in mapping(pod, "metadata", "labels").items()
        if not key.startswith("symphony/")
    }
    rest = {name: value for name, value in spec.items() if name not in ("containers", "initContainers")}
    return json.dumps([plain, labels, rest], sort_keys=True, default=str)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return ""
    words = cast("list[Any]", value) if isinstance(value, list) else [None]
    return [] if all(isinstance(word, str) for word in words) else words


def _problems(refused: Refused, pod: Values, part: _Part) -> Iterator[Problem]:
    if unknown := _UNKNOWN.findall(refused.what):
        for why, field in unknown:
            who, where, short = _place(field, pod, part)
            yield Problem(f"{who} sets {short}, which is {_article(why)} field", _nearest(field), (where,))
    elif found := _WRONG_TYPE.search(refused.what):
        kind, field, wanted = found.groups()
        who, where, short = _place(field, pod, part)
        expected = _TYPES.get(wanted, "a whole number" if wanted.startswith("int") else "a mapping or a list")
        yield Problem(f"{who} sets {short} to a {kind}", f"give {expected}", (where,))
    elif _QUANTITY in refused.what:
        who, where, _ = _place("resources", pod, part)
        yield Problem(f"{who} has a quantity that Kubernetes cannot read", WRITE_ONE, (where,))
    elif refused.causes:
        for field, why in dict.fromkeys(refused.causes):
            who, where, short = _place(field, pod, part)
            explain = re.sub(r"\[[^\]]*\]", "", field)
            yield Problem(
                f"{who} sets {short}: {why}", f"`kubectl explain pod.{explain}` tells more", (where,)
            )
    else:
        who, where, _ = _place("", pod, part)
        why = refused.what.partition("is forbidden: ")[2] or refused.what
        level = re.search(r'violates PodSecurity "(\w+)', why)
        remedy = f"set symphony:podSecurity: {level[1]}" if level else "ask for what its rules allow"
        yield Problem(f"{who} is refused by the cluster: {why}", remedy, (where,))


def _place(field: str, pod: Values, part: _Part) -> tuple[str, Location, str]:
    """Return whose setting made a field, its line, and the field as that setting calls it."""
    who = part.name if isinstance(part, ProcessSpec) else f"process group {part.name}"
    process = part if isinstance(part, ProcessSpec) else None
    short = field.removeprefix("spec.")
    if found := _CONTAINER.match(field):
        short = field[found.end() :]
        process = _process(pod, field, int(found[1]), part)
    top = re.split(r"[.\[]", short)[0]
    if process is not None and top in process.container_yml:
        return f"container_yml of {_path(process, part)}", process.at("container_yml"), short
    owners: Sequence[_Part] = [process, part] if process is not None else [part]
    for start, setting in _SETTINGS:
        if short.startswith(start) and (owner := next((one for one in owners if _has(one, setting)), None)):
            return _path(owner, part), owner.at(setting), short
    if part.pod.pod_yml:
        return f"pod_yml of {who}", part.at("pod_yml"), field
    return who, part.where, short


def _has(part: _Part, setting: str) -> bool:
    return any(place == setting or place.startswith(f"{setting} ") for place in part.places)


def _path(owner: _Part, part: _Part) -> str:
    if owner is part:
        return part.name if isinstance(part, ProcessSpec) else f"process group {part.name}"
    return f"{part.name}/{owner.name}"


def _process(pod: Values, field: str, index: int, part: _Part) -> ProcessSpec | None:
    """Return the process whose container a field is in; None for one that pod_yml adds."""
    containers = listing(pod, "spec", "initContainers" if "initContainers" in field else "containers")
    name = text(containers[index], "name") if index < len(containers) else ""
    processes = [part] if isinstance(part, ProcessSpec) else part.processes
    return next((process for process in processes if as_label(process.name) == name), None)


def _nearest(field: str) -> str:
    """Return the remedy for a field that there is not: the official client knows the right ones."""
    from kubernetes.client import V1Container, V1PodSpec

    known: Any = V1Container if _CONTAINER.match(field) else V1PodSpec
    near = nearest(field.rpartition(".")[2], known.attribute_map.values())
    return f'did you mean "{near}"?' if near else "leave it out, or correct its name"


def _article(why: str) -> str:
    return "an unknown" if why == "unknown" else "a duplicate"
