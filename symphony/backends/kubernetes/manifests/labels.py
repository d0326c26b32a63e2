"""The labels and annotations of symphony's objects in the cluster: which they are, and their owner."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from symphony.backends.kubernetes.api.fields import text

MANAGED_BY = "app.kubernetes.io/managed-by"
SYMPHONY = "symphony"
OURS = f"{MANAGED_BY}={SYMPHONY}"
EXPERIMENT = "symphony/experiment"
# The Services of a pod select it by this label.
POD = "symphony/pod"

# The stack that created it, as an annotation: an owner's name is not a legal label value.
OWNER = "symphony/owner"
# The process group of the pod; a pod without it runs one process that is in no group.
GROUP = "symphony/group"
# The containers of a pod that are processes; without it, all are.
PROCESSES = "symphony/processes"
# The pool that was planned for a pod, and the most machines of that pool.
POOL = "symphony/pool"
POOL_MAX = "symphony/pool-max"
# The start of the pod: another value makes the engine replace the pod.
ATTEMPT = "symphony/attempt"
# The version of a ConfigMap or Secret that was edited by others: a new one makes the engine write it again.
EDITED = "symphony/edited"
# The digest of the pod's manifest: it tells whether a pod of an interrupted run can stay.
DIGEST = "symphony/digest"

# The names of the images that were built, by container: the pod itself runs them by their digests.
IMAGES = "symphony/images"

# The objects that hold an experiment's variables and files, one of each.
SERVICES_MAP = "symphony-services"
SECRETS = "symphony-secrets"
CONFIGS = "symphony-configs"
# The values of secret_env, each under its digest, and the key of the digests.
SECRET_ENV = "symphony-secret-env"
DIGEST_KEY = "digest-key"

# The service account, the Role and the Job of the pod that keeps the order of the others.
SUPERVISOR = "symphony-supervisor"

# Write over what others edited: without it the API server refuses, field by field.
FORCE = {"pulumi.com/patchForce": "true"}
# The engine only has to see that the object is there: symphony watches it become ready by itself, and the
# engine's own wait for a pod may never end.
EXISTS = {"pulumi.com/waitFor": "jsonpath={.metadata.uid}"}


def digest(value: Any) -> str:
    """Return sixteen hex digits that tell one manifest from another."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def of_object(experiment: str) -> dict[str, str]:
    """Return the labels of every object of an experiment."""
    return {MANAGED_BY: SYMPHONY, EXPERIMENT: experiment}


def of_pod(experiment: str, pod: str) -> dict[str, str]:
    """Return the labels of a pod."""
    return {**of_object(experiment), POD: pod}


def annotation(manifest: Mapping[str, Any], name: str) -> str:
    """Return an annotation of an object, an empty text where there is none."""
    return text(manifest, "metadata", "annotations", name)


def by_pod(pods: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the pods by their names in the plan; of several tries the last that is not being ended."""
    pods_by_name: dict[str, dict[str, Any]] = {}
    for pod in sorted(pods, key=_age):
        pods_by_name[text(pod, "metadata", "labels", POD) or text(pod, "metadata", "name")] = pod
    return pods_by_name


def before(pods: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the tries before the last one, by the name in the plan: each try of a Job is a pod."""
    tries: dict[str, list[dict[str, Any]]] = {}
    for pod in sorted(pods, key=_age):
        tries.setdefault(text(pod, "metadata", "labels", POD), []).append(pod)
    return {name: every[:-1] for name, every in tries.items() if name and len(every) > 1}


def _age(pod: Mapping[str, Any]) -> tuple[bool, str]:
    return not text(pod, "metadata", "deletionTimestamp"), text(pod, "metadata", "creationTimestamp")


def belongs_to(manifest: Mapping[str, Any], owner: str) -> bool:
    """Return whether a stack made this object."""
    ours = text(manifest, "metadata", "labels", MANAGED_BY) == SYMPHONY
    return ours and annotation(manifest, OWNER) == owner
