"""Pods kept by a Job or a JobSet, on request: their manifests and places. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from symphony.backends.kubernetes.api.fields import listing, mapping, text
from symphony.backends.kubernetes.manifests import labels

Manifest = dict[str, Any]

POD, JOB, JOB_SET = "Pod", "Job", "JobSet"
_APIS = {POD: "v1", JOB: "batch/v1", JOB_SET: "jobset.x-k8s.io/v1alpha2"}
JOB_SET_API = f"/apis/{_APIS[JOB_SET]}"
# The type of a resource in the engine's state -> the kind that it is.
KINDS = {
    "kubernetes:core/v1:Pod": POD,
    "kubernetes:batch/v1:Job": JOB,
    f"kubernetes:{_APIS[JOB_SET]}:JobSet": JOB_SET,
}
TYPES = {kind: type_ for type_, kind in KINDS.items()}
# How often a process with restart_policy("OnFailure") is started again; then it has failed.
RETRIES = 6
_NOTHING: Mapping[str, Any] = {}
_MEMBER = "w"
# What a JobSet adds to its name for that of a pod: -w-0-0-abcde.
LONGEST_IN_JOB_SET = 63 - len(f"-{_MEMBER}-0-0-abcde")


def controlled(pod: Manifest, controller: str) -> Manifest:
    """The pod, or the Job or JobSet that makes it and makes another when its machine is lost."""
    if controller == POD:
        return pod
    job = _job_spec(pod)
    spec = job if controller == JOB else _job_set_spec(pod, job)
    metadata = pod["metadata"]
    notes = {**metadata["annotations"], labels.DIGEST: labels.digest(spec)}
    return {
        "apiVersion": _APIS[controller],
        "kind": controller,
        "metadata": {**metadata, "annotations": notes},
        "spec": spec,
    }


def pod_in(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """The pod that a manifest is or makes, under the name and with the notes of the manifest."""
    spec: Mapping[str, Any] = manifest["spec"]
    if manifest.get("kind") == JOB_SET:
        spec = listing(spec, "replicatedJobs")[0]["template"]["spec"]
    if manifest.get("kind") in (JOB, JOB_SET):
        spec = spec["template"]["spec"]
    return {"metadata": manifest["metadata"], "spec": spec}


def kept_by(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What keeps the pod, as a setting of its processes; nothing for a pod of its own."""
    kind, spec = manifest.get("kind"), mapping(manifest, "spec")
    if kind == JOB_SET:
        spec = mapping(listing(spec, "replicatedJobs")[0], "template", "spec")
    return {} if kind not in (JOB, JOB_SET) else {"kind": kind, "retries": int(spec.get("backoffLimit") or 0)}


def path_of(kind: str, namespace: str, name: str = "") -> str:
    """Where objects of a kind are."""
    api = _APIS[kind]
    base = f"/apis/{api}" if "/" in api else f"/api/{api}"
    place = f"{base}/namespaces/{quote(namespace, safe='')}/{kind.lower()}s"
    return f"{place}/{quote(name, safe='')}" if name else place


def maker(kind: str, name: str) -> tuple[str, str]:
    """What makes the pod, of which the cluster tells when it cannot: a JobSet has it made by a Job."""
    return (JOB, f"{name}-{_MEMBER}-0") if kind == JOB_SET else (kind, name)


def has_failed(body: Mapping[str, Any]) -> bool:
    """Whether a Job or JobSet has given up."""
    return bool(_condition(body, "Failed"))


def completion(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The condition by which a Job or JobSet says that it came to a good end; an empty one before."""
    return _condition(body, "Complete", "Completed")


def _condition(body: Mapping[str, Any], *kinds: str) -> Mapping[str, Any]:
    every = [each for each in listing(body, "status", "conditions") if each.get("status") == "True"]
    return next((each for each in every if each.get("type") in kinds), _NOTHING)


def is_kept(pod: Mapping[str, Any]) -> bool:
    """Whether something else makes this pod and makes it again."""
    return any(each.get("controller") for each in listing(pod, "metadata", "ownerReferences"))


def _job_spec(pod: Manifest) -> dict[str, Any]:
    """A Job that makes a pod, and another when that was driven off its machine; after a failure on request.

    Every try is a pod of its own, so that the logs of those that failed stay.
    """
    metadata = pod["metadata"]
    notes = {
        name: value
        for name, value in metadata["annotations"].items()
        # A Job whose template changes is replaced: in there is only what its pods need.
        if name not in (*labels.EXISTS, labels.DIGEST, labels.PROCESSES)
    }
    again = text(pod, "spec", "restartPolicy") == "OnFailure"
    failed = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}}
    driven_off = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    return {
        "backoffLimit": RETRIES if again else 0,
        "podFailurePolicy": {"rules": [driven_off] if again else [driven_off, failed]},
        "template": {
            "metadata": {"labels": metadata["labels"], "annotations": notes},
            "spec": {**pod["spec"], "restartPolicy": "Never"},
        },
    }


def _job_set_spec(pod: Manifest, job: dict[str, Any]) -> dict[str, Any]:
    marks = {"labels": labels.of_object(pod["metadata"]["labels"][labels.EXPERIMENT])}
    return {
        "network": {"enableDNSHostnames": False},
        "failurePolicy": {"maxRestarts": 0},
        "replicatedJobs": [{"name": _MEMBER, "replicas": 1, "template": {"metadata": marks, "spec": job}}],
    }
