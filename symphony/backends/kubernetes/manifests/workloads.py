"""Workloads: the manifests of pods and Jobs, with their state and the processes in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from symphony.backends.kubernetes.api.fields import listing, mapping, text
from symphony.backends.kubernetes.manifests import labels
from symphony.content.code_files import VARIABLE

Manifest = dict[str, Any]

POD, JOB = "Pod", "Job"
# The type of a resource in the engine's state -> its kind.
KINDS = {
    "kubernetes:core/v1:Pod": POD,
    "kubernetes:batch/v1:Job": JOB,
}
_RBAC = "kubernetes:rbac.authorization.k8s.io/v1"
TYPES = {
    **{kind: type_ for type_, kind in KINDS.items()},
    "Role": f"{_RBAC}:Role",
    "RoleBinding": f"{_RBAC}:RoleBinding",
}
# How often a Job restarts a process with restart_policy("OnFailure") before it fails.
RETRIES = 6


def workload(pod: Manifest, controller: str) -> Manifest:
    """Return the pod, or a Job that creates it and re-creates it if its machine is lost."""
    if controller == POD:
        return pod
    spec = _job_spec(pod)
    template = spec["template"]
    # Without scheduling gates, so that a changed order of starts restarts nothing: the engine ignores the
    # changed spec (see expand.py), and only another digest replaces the Job.
    ungated = {name: field for name, field in template["spec"].items() if name != "schedulingGates"}
    digest = labels.digest({**spec, "template": {**template, "spec": ungated}})
    job = {"apiVersion": "batch/v1", "kind": controller, "metadata": pod["metadata"], "spec": spec}
    return labels.annotated(job, {labels.DIGEST: digest})


def pod_in(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the pod of a manifest, or of its Job, with the metadata of the manifest."""
    spec: Mapping[str, Any] = manifest["spec"]
    if manifest.get("kind") == JOB:
        spec = spec["template"]["spec"]
    return {"metadata": manifest["metadata"], "spec": spec}


def with_spec(manifest: Mapping[str, Any], spec: Mapping[str, Any]) -> Manifest:
    """Return the manifest of a pod, or of its Job, with the spec of the pod replaced."""
    if manifest.get("kind") != JOB:
        return {**manifest, "spec": spec}
    template = {**manifest["spec"]["template"], "spec": spec}
    return {**manifest, "spec": {**manifest["spec"], "template": template}}


def controller_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the controller of a pod as a setting of its processes; {} if it has none."""
    if manifest.get("kind") != JOB:
        return {}
    return {"kind": JOB, "retries": int(mapping(manifest, "spec").get("backoffLimit") or 0)}


def has_failed(body: Mapping[str, Any]) -> bool:
    """Return whether a Job has given up."""
    return bool(_condition(body, "Failed"))


def completion(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the condition with which a Job succeeded; empty before that."""
    return _condition(body, "Complete")


def _condition(body: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    for condition in listing(body, "status", "conditions"):
        if (condition.get("type"), condition.get("status")) == (kind, "True"):
            return condition
    return {}


def is_controlled(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod has a controller, which re-creates it."""
    return any(owner.get("controller") for owner in listing(pod, "metadata", "ownerReferences"))


def _job_spec(pod: Manifest) -> dict[str, Any]:
    """Return the spec of a Job that creates a pod, and re-creates it after a disruption.

    If the pod's policy is OnFailure, the Job re-creates it after a failure too. Every try is a new pod, so
    that the logs of failed tries remain.
    """
    metadata = pod["metadata"]
    annotations = {
        name: annotation
        for name, annotation in metadata["annotations"].items()
        # A changed template replaces the Job, so the template has only the annotations that pods need.
        if name not in (*labels.EXISTS, labels.DIGEST, labels.PROCESSES)
    }
    retries = text(pod, "spec", "restartPolicy") == "OnFailure"
    failed = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}}
    disrupted = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    selector = {name: metadata["labels"][name] for name in (labels.EXPERIMENT, labels.POD)}
    return {
        # Otherwise the API server adds labels with "-" in their names to the template. After `pulumi refresh`
        # the plugin records them as inputs, cannot ignore them because of the "-", and replaces every Job.
        "manualSelector": True,
        "selector": {"matchLabels": selector},
        "backoffLimit": RETRIES if retries else 0,
        "podFailurePolicy": {"rules": [disrupted] if retries else [disrupted, failed]},
        "template": {
            "metadata": {"labels": metadata["labels"], "annotations": annotations},
            "spec": {**pod["spec"], "restartPolicy": "Never"},
        },
    }


def processes_of(manifest: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return each process in the manifest of a pod or its Job, as `Recorded` holds it, by path."""
    group = labels.annotation(manifest, labels.GROUP)
    selector = mapping(pod_in(manifest), "spec", "nodeSelector")
    shared = {
        "controller": controller_of(manifest),
        "fingerprint": fingerprint(manifest),
        "pod": {"nodeSelector": selector},
    }
    built: Mapping[str, str] = json.loads(labels.annotation(manifest, labels.IMAGES) or "{}")
    names = names_of(manifest)
    return {
        f"{group}/{name}" if group else name: {
            "image": built.get(name, container.get("image")),
            "resources": container.get("resources") or {},
            "code": _code(container),
            **shared,
        }
        for container in pod_in(manifest)["spec"]["containers"]
        if (name := str(container["name"])) in names
    }


def _code(container: Mapping[str, Any]) -> str:
    variables = {variable["name"]: variable for variable in listing(container, "env")}
    return text(variables.get(VARIABLE), "value")


def pin_images(manifest: Mapping[str, Any], images: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of a pod or its Job with image digests in place of image names.

    An annotation keeps the names, which commands show. An image pushed again under another digest restarts
    no process, because labels.DIGEST is the digest of the manifest with the names.
    """
    spec = pod_in(manifest)["spec"]
    lists = {kind: listing(spec, kind) for kind in ("initContainers", "containers") if kind in spec}
    names = {
        str(container["name"]): container["image"]
        for containers in lists.values()
        for container in containers
        if container.get("image") in images
    }
    if not names:
        return dict(manifest)
    pinned_lists = {
        kind: [
            {**container, "image": images.get(container["image"], container["image"])}
            for container in containers
        ]
        for kind, containers in lists.items()
    }
    changed = with_spec(manifest, {**spec, **pinned_lists})
    return labels.annotated(changed, {labels.IMAGES: json.dumps(names, sort_keys=True)})


def names_of(manifest: Mapping[str, Any]) -> list[str]:
    """Return the names of the containers that are processes; pod_yml may have added others."""
    if names := labels.annotation(manifest, labels.PROCESSES):
        return names.split(",")
    return [str(container["name"]) for container in listing(pod_in(manifest), "spec", "containers")]


def fingerprint(manifest: Mapping[str, Any]) -> str:
    """Return the fingerprint of a pod; if it changes, the pod is replaced."""
    controller = controller_of(manifest)
    made_by = "/".join(map(str, controller.values())) or "Pod"
    namespace = text(manifest, "metadata", "namespace")
    return f"{namespace}/{made_by}/{labels.annotation(manifest, labels.DIGEST)}"


def secret_digests(manifest: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return the digests of the values of a process's secret_env, by variable."""
    containers = {
        container["name"]: container for container in listing(pod_in(manifest), "spec", "containers")
    }
    variables = listing(containers.get(name), "env")
    return {variable["name"]: digest for variable in variables if (digest := _digest(variable))}


def _digest(variable: Mapping[str, Any]) -> str:
    reference = mapping(variable, "valueFrom", "secretKeyRef")
    return text(reference, "key") if text(reference, "name").endswith(labels.SECRET_ENV) else ""
