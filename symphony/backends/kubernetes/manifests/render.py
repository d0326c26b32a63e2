"""Renders a plan as Kubernetes objects, of which expand makes resources. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from symphony.backends.kubernetes.manifests import labels, pod, supervisor_pod
from symphony.backends.kubernetes.manifests.controllers import JOB, controlled
from symphony.backends.kubernetes.settings import Settings
from symphony.plan.plan import Plan, PlannedService

Manifest = dict[str, Any]
_LEVEL = "pod-security.kubernetes.io"
# Pulumi's plugin reads objects as YAML, which refuses these characters, or makes U+0085 a space.
REFUSED_CHARACTERS = re.compile(r"[\x7f-\x9f\ufffe\uffff]")


@dataclass(frozen=True)
class Manifests:
    """Every object of an experiment; services and pods by what the plan calls them, a pod with its group.

    A Job takes the place of the pod that it makes. supervisor: what keeps the order of the pods; the last of
    these objects is its Job.
    """

    namespace: Manifest | None
    variables: Manifest
    secrets: Manifest | None
    configs: Manifest | None
    secret_env: Manifest | None
    services: Mapping[str, Manifest]
    pods: Mapping[str, tuple[str | None, Manifest]]
    supervisor: tuple[Manifest, ...] = ()

    def all(self) -> list[Manifest]:
        """Return the objects in the order in which they can be made."""
        first = (self.namespace, self.variables, self.secrets, self.configs, self.secret_env)
        return [
            *filter(None, first),
            *self.supervisor,
            *self.services.values(),
            *(manifest for _, manifest in self.pods.values()),
        ]


def render(
    plan: Plan,
    settings: Settings,
    owner: str,
    *,
    attempt: Callable[[str, str], str] = lambda _name, _kind: "1",
    files: Mapping[str, bytes] | None = None,
    key: bytes = b"",
) -> Manifests:
    """Return all objects of a plan.

    Args:
        plan: The plan.
        settings: Those of the stack.
        owner: The stack, as objects in the cluster name it.
        attempt: Returns which start of a pod this is, by the name and the kind of what makes it.
        files: The content of each secret and config file, by the path that the program names.
        key: The key of the digests of secret_env.
    """
    every = [(each, pod.controller(each, settings)) for each in pod.pods_of(plan)]
    contents = files or {}
    return Manifests(
        namespace=namespace(plan, settings, owner) if settings.create_namespace else None,
        variables=_object(plan, settings, owner, "ConfigMap", labels.SERVICES_MAP)
        | {"data": dict(plan.service_env)},
        secrets=_object(plan, settings, owner, "Secret", labels.SECRETS)
        | {"type": "Opaque", "data": {_name(file): _base64(contents[file]) for file in plan.secrets}}
        if plan.secrets
        else None,
        configs=_object(plan, settings, owner, "ConfigMap", labels.CONFIGS)
        | _contents({_name(file): contents[file] for file in plan.configs})
        if plan.configs
        else None,
        secret_env=_object(plan, settings, owner, "Secret", labels.SECRET_ENV)
        | {"type": "Opaque", "data": _secret_env(plan, key)}
        if any(each.secret_env for each in plan.processes)
        else None,
        supervisor=tuple(
            supervisor_pod.manifests(plan, settings, owner, attempt(settings.named(labels.SUPERVISOR), JOB))
        ),
        services={each.name: _service(plan, each, settings, owner) for each in plan.services},
        pods={
            each.name: (
                each.group,
                controlled(
                    pod.pod(plan, each, settings, owner, attempt(settings.named(each.name), kind), key), kind
                ),
            )
            for each, kind in every
        },
    )


def namespace(plan: Plan, settings: Settings, owner: str) -> Manifest:
    """Return the namespace, with the Pod Security level that the API server enforces in it."""
    level = {f"{_LEVEL}/{mode}": settings.pod_security for mode in ("enforce", "warn")}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": plan.physical_name,
            "labels": {**labels.of_object(plan.physical_name), **level},
            "annotations": {labels.OWNER: owner},
        },
    }


def _service(plan: Plan, planned: PlannedService, settings: Settings, owner: str) -> dict[str, Any]:
    """Return the Service of a name.

    The Service of a bound name is headless: the name is the address of the pod, so that all ports and
    protocols work and nothing is between two processes. An exposed one has the type that the stack asks for.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": settings.named(planned.name),
            "namespace": plan.physical_name,
            "labels": labels.of_object(settings.shared_as or plan.physical_name),
            "annotations": {**labels.EXISTS, labels.OWNER: owner},
        },
        "spec": {
            "selector": {labels.POD: settings.named(planned.path.partition("/")[0])},
            "ports": [
                {"name": "service", "port": planned.port, "targetPort": planned.port, "protocol": "TCP"}
            ],
            # The name resolves as soon as the pod has an address: processes connect before they are ready.
            "publishNotReadyAddresses": True,
            **(_outside(settings) if planned.exposed else {"type": "ClusterIP", "clusterIP": "None"}),
        },
    }


def _outside(settings: Settings) -> dict[str, Any]:
    if settings.expose == "LoadBalancer":
        return {"type": "LoadBalancer", "loadBalancerSourceRanges": list(settings.source_ranges)}
    return {"type": settings.expose}


def _object(plan: Plan, settings: Settings, owner: str, kind: str, name: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {
            "name": settings.named(name),
            "namespace": plan.physical_name,
            "labels": labels.of_object(settings.shared_as or plan.physical_name),
            "annotations": {**labels.FORCE, labels.OWNER: owner},
        },
    }


def _secret_env(plan: Plan, key: bytes) -> dict[str, str]:
    """Return the values by their digests, and the key: the next run makes the same digests with it."""
    every = [secret for process in plan.processes for secret in process.secret_env.values()]
    values = {each.digest(key): each.reveal().encode() for each in every if each.is_known}
    return {name: _base64(value) for name, value in {**values, labels.DIGEST_KEY: key}.items()}


def _contents(files: Mapping[str, bytes]) -> Manifest:
    """Return the data of a ConfigMap: files of plain text stay readable in it, others are in base 64."""
    texts: dict[str, str] = {}
    others: dict[str, str] = {}
    for name, content in files.items():
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            text = None
        if text is None or REFUSED_CHARACTERS.search(text):
            others[name] = _base64(content)
        else:
            texts[name] = text
    parts = {"data": texts, "binaryData": others}
    return {name: values for name, values in parts.items() if values}


def _name(file: str) -> str:
    return file.rpartition("/")[2]


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
