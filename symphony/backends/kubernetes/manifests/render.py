"""Renders a plan as Kubernetes objects, which `expand` registers."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from symphony.backends.kubernetes.manifests import labels, pod, supervisor_pod
from symphony.backends.kubernetes.manifests.workloads import JOB, workload
from symphony.backends.kubernetes.settings import Settings
from symphony.plan.plan import Plan, PlannedService

Manifest = dict[str, Any]
_LEVEL = "pod-security.kubernetes.io"
# Pulumi's plugin reads objects as YAML, which refuses these characters, or turns U+0085 into a space.
REFUSED_CHARACTERS = re.compile(r"[\x7f-\x9f\udc80-\udcff\ufffe\uffff]")


@dataclass(frozen=True)
class Manifests:
    """Every object of an experiment; services and pods by their names in the plan, a pod with its group.

    files: the ConfigMaps and Secrets. A Job takes the place of the pod that it creates. supervisor: the
    supervisor's objects; its Job comes last.
    """

    namespace: Manifest | None
    files: tuple[Manifest, ...]
    services: Mapping[str, Manifest]
    pods: Mapping[str, tuple[str | None, Manifest]]
    supervisor: tuple[Manifest, ...] = ()

    def all(self) -> list[Manifest]:
        """Return the objects in the order in which they can be created."""
        return [
            *([self.namespace] if self.namespace else []),
            *self.files,
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
        settings: The settings of the stack.
        owner: The owner id of the stack.
        attempt: Returns the attempt of a pod, from its name and the kind that creates it.
        files: The content of each secret and config file, by its path in the program.
        key: The key of the digests of secret_env.
    """
    planned = [(pod_, pod.controller(pod_, settings)) for pod_ in pod.pods_of(plan)]
    return Manifests(
        namespace=namespace(plan, settings, owner) if settings.create_namespace else None,
        files=tuple(_files(plan, settings, owner, files or {}, key)),
        supervisor=tuple(
            supervisor_pod.manifests(
                plan, settings, owner, attempt(settings.object_name(labels.SUPERVISOR), JOB)
            )
        ),
        services={service.name: _service(plan, service, settings, owner) for service in plan.services},
        pods={
            pod_.name: (
                pod_.group,
                workload(
                    pod.pod(plan, pod_, settings, owner, attempt(settings.object_name(pod_.name), kind), key),
                    kind,
                ),
            )
            for pod_, kind in planned
        },
    )


def namespace(plan: Plan, settings: Settings, owner: str) -> Manifest:
    """Return the namespace with its Pod Security level."""
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
    """Return the Service of a planned service.

    A bound service is headless: its name resolves to the pod's address, so that all ports and protocols work
    without a proxy. An exposed service has the type that the stack's settings choose.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": settings.object_name(planned.name),
            "namespace": plan.physical_name,
            "labels": labels.of_object(settings.shared_as or plan.physical_name),
            "annotations": {**labels.EXISTS, labels.OWNER: owner},
        },
        "spec": {
            "selector": {labels.POD: settings.object_name(planned.path.partition("/")[0])},
            "ports": [
                {"name": "service", "port": planned.port, "targetPort": planned.port, "protocol": "TCP"}
            ],
            # Processes connect before they are ready, so the name resolves once the pod has an address.
            "publishNotReadyAddresses": True,
            **(_outside(settings) if planned.exposed else {"type": "ClusterIP", "clusterIP": "None"}),
        },
    }


def _outside(settings: Settings) -> dict[str, Any]:
    if settings.expose == "LoadBalancer":
        return {"type": "LoadBalancer", "loadBalancerSourceRanges": list(settings.source_ranges)}
    return {"type": settings.expose}


def _files(
    plan: Plan, settings: Settings, owner: str, contents: Mapping[str, bytes], key: bytes
) -> Iterator[Manifest]:
    """Yield the ConfigMaps and Secrets with the variables of services, the files, and secret_env."""

    def named_object(kind: str, name: str, **fields: Any) -> Manifest:
        return {**_object(plan, settings, owner, kind, name), **fields}

    yield named_object("ConfigMap", labels.SERVICES_MAP, data=dict(plan.service_env))
    if plan.secrets:
        data = {_name(file): _base64(contents[file]) for file in plan.secrets}
        yield named_object("Secret", labels.SECRETS, type="Opaque", data=data)
    if plan.configs:
        files = {_name(file): contents[file] for file in plan.configs}
        yield named_object("ConfigMap", labels.CONFIGS, **_contents(files))
    if any(process.secret_env for process in plan.processes):
        yield named_object("Secret", labels.SECRET_ENV, type="Opaque", data=_secret_env(plan, key))


def _object(plan: Plan, settings: Settings, owner: str, kind: str, name: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {
            "name": settings.object_name(name),
            "namespace": plan.physical_name,
            "labels": labels.of_object(settings.shared_as or plan.physical_name),
            "annotations": {**labels.FORCE, labels.OWNER: owner},
        },
    }


def _secret_env(plan: Plan, key: bytes) -> dict[str, str]:
    """Return the values by digest, and the key, with which the next run computes the same digests."""
    secrets = [secret for process in plan.processes for secret in process.secret_env.values()]
    contents = {secret.digest(key): secret.reveal().encode() for secret in secrets if secret.is_known}
    return {name: _base64(content) for name, content in {**contents, labels.DIGEST_KEY: key}.items()}


def _contents(files: Mapping[str, bytes]) -> Manifest:
    """Return the data of a ConfigMap; text files stay readable, others are in base64."""
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}
    for name, content in files.items():
        # Bytes that are not UTF-8 become U+DC80 to U+DCFF.
        text = content.decode("utf-8", "surrogateescape")
        if REFUSED_CHARACTERS.search(text):
            binary_data[name] = _base64(content)
        else:
            data[name] = text
    fields = {"data": data, "binaryData": binary_data}
    return {name: entries for name, entries in fields.items() if entries}


def _name(file: str) -> str:
    return file.rpartition("/")[2]


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
