"""What Kubernetes would refuse of the whole manifests, pod_yml and container_yml included. Pure.

What is declared was judged with the plan (declaration.py): here it is what came of merging the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from symphony.backends.kubernetes.api.fields import Values, listing, mapping, text
from symphony.backends.kubernetes.manifests import controllers
from symphony.backends.kubernetes.manifests.render import Manifests
from symphony.backends.kubernetes.validation.declaration import MAX_FILES, is_key, is_label_value
from symphony.placement.quantities import WRITE_ONE, amount
from symphony.plan.names import as_label, is_label, shown
from symphony.plan.problems import Problem
from symphony.spec.experiment import ExperimentSpec

# etcd takes 1.5 MiB a request, and the server notes beside each field who set it.
MAX_MANIFEST = 1_200_000
_WORDS = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
}

# What was done, as `agent has ...` goes on, and what to do instead.
_Mistake = tuple[str, str]


def check(manifests: Manifests, spec: ExperimentSpec) -> list[Problem]:
    """Every reason for which the cluster would not take them, with the lines of the processes."""
    places = {as_label(thing.name): thing.where for thing in (*spec.processes, *spec.groups)}
    result = [
        Problem(f"{name} {what}", remedy, (places[name],))
        for name, (_, manifest) in manifests.pods.items()
        for what, remedy in _of_pod(controllers.pod_in(manifest))
    ]
    size = sum(len(f"{key}{value}".encode()) for key, value in manifests.variables["data"].items())
    if size > MAX_FILES:
        what = f"the addresses of the services have {size} bytes, more than the {MAX_FILES} of a ConfigMap"
        result.append(Problem(what, "declare fewer services", (spec.where,)))
    values = manifests.secret_env["data"].values() if manifests.secret_env else ()
    if (size := sum(map(len, values)) * 3 // 4) > MAX_FILES:
        what = f"the values of secret_env have {size} bytes, more than the {MAX_FILES} of a Secret"
        result.append(Problem(what, "put large ones into files, and name those in secrets", (spec.where,)))
    return result


def _of_pod(pod: Values) -> Iterator[_Mistake]:
    spec = mapping(pod, "spec")
    containers = [*listing(spec, "containers"), *listing(spec, "initContainers")]
    volumes = [text(each, "name") for each in listing(spec, "volumes")]
    yield from _of_labels(mapping(pod, "metadata", "labels"))
    yield from _words("", spec)
    for name in _twice(text(each, "name") for each in containers):
        yield f"has two containers called {shown(name)}", "give one of them another name"
    for name in _twice(volumes):
        yield f"has two volumes called {shown(name)}", "give one of them another name"
    for each in containers:
        yield from _of_container(each, volumes)
    size = len(json.dumps(pod).encode())
    if size > MAX_MANIFEST:
        yield f"has a manifest of {size} bytes, more than the {MAX_MANIFEST} of a pod", "make it smaller"


def _of_container(container: Values, volumes: list[str]) -> Iterator[_Mistake]:
    name = text(container, "name")
    if not is_label(name):
        remedy = 'small letters, digits and "-", at most 63'
        yield f"has a container called {shown(name)}", remedy
    if not text(container, "image"):
        yield f"has a container {shown(name)} without an image", "give it one"
    yield from _words(f"in the container {shown(name)} ", container)
    mounts = listing(container, "volumeMounts")
    for path in _twice(text(each, "mountPath") for each in mounts):
        yield f"mounts twice at {shown(path)}, in the container {shown(name)}", "give another mountPath"
    for each in mounts:
        if text(each, "name") not in volumes:
            what = f"mounts the volume {shown(text(each, 'name'))}, which it does not have"
            yield what, "add it to spec.volumes in pod_yml"
    for kind in ("requests", "limits"):
        for resource, value in mapping(container, "resources", kind).items():
            if amount(value) is None:
                what = f"{kind} {shown(resource)} of {shown(str(value))}, in the container {shown(name)}"
                yield what, WRITE_ONE


def _of_labels(given: Values) -> Iterator[_Mistake]:
    for key, value in given.items():
        if not is_key(key):
            yield f"has a label with the key {shown(key)}", "write it as [domain/]name"
        elif not is_label_value(str(value)):
            remedy = 'at most 63 letters, digits, "-", "_", "."; the first and last a letter or digit'
            yield f"has the label {shown(key)} with the value {shown(str(value))}", remedy


def _words(place: str, given: Values) -> Iterator[_Mistake]:
    for field, words in _WORDS.items():
        if (value := given.get(field)) is not None and value not in words:
            yield f"sets {place}{field} to {shown(str(value))}", f"expected one of: {', '.join(words)}"


def _twice(names: Iterable[Any]) -> list[str]:
    every = list(names)
    return sorted({name for name in every if every.count(name) > 1})
