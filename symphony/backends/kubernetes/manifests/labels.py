"""The labels and annotations of symphony's objects in a cluster."""

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

# The owner id of the stack; an annotation, since it is not a valid label value.
OWNER = "symphony/owner"
# The identifier of the cluster, on a namespace that the program created.
CLUSTER = "symphony/cluster"
# The process group of the pod; absent if the pod runs an ungrouped process.
GROUP = "symphony/group"
# The containers of a pod that are processes; absent if all are.
PROCESSES = "symphony/processes"
# The planned pool of a pod, and the maximum size of that pool.
POOL = "symphony/pool"
POOL_MAX = "symphony/pool-max"
# The attempt of an object; another value makes the engine replace a pod, and re-create a missing object.
ATTEMPT = "symphony/attempt"
# The version of a ConfigMap or Secret that others edited; a new version makes the engine write it again.
EDITED = "symphony/edited"
# The digest of the spec of a pod (see pod._digest) or Job; the next `up` replaces one with another digest.
DIGEST = "symphony/digest"

# The names of built images, by container; the pod itself runs them by digest.
IMAGES = "symphony/images"

# The names of the objects with an experiment's variables, secret files and config files.
SERVICES_MAP = "symphony-services"
SECRETS = "symphony-secrets"
CONFIGS = "symphony-configs"
# The Secret with the values of secret_env under their digests, and the entry with the key of the digests.
SECRET_ENV = "symphony-secret-env"
DIGEST_KEY = "digest-key"

# The name of the supervisor's service account, Role and Job.
SUPERVISOR = "symphony-supervisor"

# Overwrite fields that others edited, which the API server would otherwise refuse.
FORCE = {"pulumi.com/patchForce": "true"}
# The engine waits only until the object exists: symphony itself watches pods become ready, and the engine's
# wait for a pod may never end.
EXISTS = {"pulumi.com/waitFor": "jsonpath={.metadata.uid}"}


def digest(value: Any) -> str:
    """Return a digest of a manifest, sixteen hex digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def of_object(experiment: str) -> dict[str, str]:
    """Return the labels of every object of an experiment."""
    return {MANAGED_BY: SYMPHONY, EXPERIMENT: experiment}


def of_pod(experiment: str, pod: str) -> dict[str, str]:
    """Return the labels of a pod."""
    return {**of_object(experiment), POD: pod}


def annotation(manifest: Mapping[str, Any], name: str) -> str:
    """Return an annotation of an object; empty if there is none."""
    return text(manifest, "metadata", "annotations", name)


def annotated(manifest: Mapping[str, Any], annotations: Mapping[str, str]) -> dict[str, Any]:
    """Return the manifest with more annotations."""
    metadata = manifest["metadata"]
    return {
        **manifest,
        "metadata": {**metadata, "annotations": {**metadata["annotations"], **annotations}},
    }


def by_pod(pods: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the pods by the names of their manifests; the last try that is not being deleted wins."""
    pods_by_name: dict[str, dict[str, Any]] = {}
    for pod in sorted(pods, key=_recency):
        pods_by_name[text(pod, "metadata", "labels", POD) or text(pod, "metadata", "name")] = pod
    return pods_by_name


def earlier_tries(pods: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the tries of Jobs except the last, by the names of the Jobs; each try is a pod."""
    tries_of: dict[str, list[dict[str, Any]]] = {}
    for pod in sorted(pods, key=_recency):
        tries_of.setdefault(text(pod, "metadata", "labels", POD), []).append(pod)
    return {name: tries[:-1] for name, tries in tries_of.items() if name and len(tries) > 1}


def _recency(pod: Mapping[str, Any]) -> tuple[bool, str]:
    """Return a sort key: pods that are being deleted come first, then the others from old to new."""
    return not text(pod, "metadata", "deletionTimestamp"), text(pod, "metadata", "creationTimestamp")


def belongs_to(manifest: Mapping[str, Any], owner: str) -> bool:
    """Return whether an object belongs to a stack."""
    ours = text(manifest, "metadata", "labels", MANAGED_BY) == SYMPHONY
    return ours and annotation(manifest, OWNER) == owner
