"""The pods of a plan: one for each free process, one for each process group. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from symphony.backends.kubernetes.api.fields import mapping
from symphony.backends.kubernetes.manifests import containers, labels, volumes
from symphony.backends.kubernetes.manifests.containers import without_nothing
from symphony.backends.kubernetes.manifests.merge import merged
from symphony.backends.kubernetes.settings import Settings
from symphony.plan.names import MAX_NAME
from symphony.plan.plan import Plan, PlannedProcess
from symphony.spec.pod import PodSettings, Toleration

# Whoever the image runs as, its processes are in this group, which may read the secret files.
SECRETS_GROUP = 2000
_SECCOMP = {"type": "RuntimeDefault"}


@dataclass(frozen=True)
class PodOfPlan:
    """A pod to be: its processes, and its settings; group is None for a process in none."""

    name: str
    group: str | None
    processes: tuple[PlannedProcess, ...]
    settings: PodSettings


def pods_of(plan: Plan) -> Iterator[PodOfPlan]:
    """The pods in the order of the plan: those of free processes first."""
    for process in plan.processes:
        if process.group is None:
            yield PodOfPlan(process.name, None, (process,), process.pod)
    for group in plan.groups:
        members = tuple(plan.process(path) for path in group.paths)
        yield PodOfPlan(group.name, group.name, members, group.pod)


def pod(
    plan: Plan, of: PodOfPlan, settings: Settings, owner: str, attempt: str, key: bytes
) -> dict[str, Any]:
    """The manifest of a pod; what pod_yml says is merged last."""
    mounts = [mount for process in of.processes for mount in process.mounts]
    spec: dict[str, Any] = {
        "restartPolicy": of.settings.restart_policy or "Never",
        "nodeSelector": dict(of.settings.node_selector),
        "tolerations": [_toleration(each) for each in of.settings.tolerations],
        "imagePullSecrets": [{"name": name} for name in settings.pull_secrets],
        "initContainers": _clones(of, settings),
        "containers": [containers.container(plan, process, settings, key) for process in of.processes],
        "volumes": [*volumes.volumes(mounts), *volumes.files_volumes(plan, settings)],
        "securityContext": {
            "seccompProfile": _SECCOMP,
            **({"fsGroup": SECRETS_GROUP} if plan.secrets else {}),
        },
    }
    name = settings.named(of.name)
    manifest: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": plan.launched_as,
            "labels": {**of.settings.labels, **labels.of_pod(settings.shared_as or plan.launched_as, name)},
            "annotations": {
                **labels.EXISTS,
                labels.OWNER: owner,
                **({labels.GROUP: of.group} if of.group else {}),
                **_pool(plan, of),
            },
        },
        "spec": {
            **without_nothing(spec),
            # Nothing an experiment runs talks to the API server, and links of Services would be variables
            # that change with whatever else is in the namespace.
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": settings.grace_seconds,
        },
    }
    whole = merged(manifest, of.settings.pod_yml)
    return marked({**_noted(whole, of), "spec": _secured(whole["spec"], settings)}, attempt)


def _pool(plan: Plan, of: PodOfPlan) -> dict[str, str]:
    """Where the pod was planned to run, for `why`."""
    pool = plan.placement.pool_of.get(of.name) if plan.placement else None
    if pool is None:
        return {}
    most = {} if pool.max is None else {labels.POOL_MAX: str(pool.max)}
    return {labels.POOL: pool.name, **most}


def _noted(manifest: dict[str, Any], of: PodOfPlan) -> dict[str, Any]:
    """With a note of which containers are processes, where the user added others."""
    names = [process.name for process in of.processes]
    if len(manifest["spec"]["containers"]) == len(names):
        return manifest
    metadata = manifest["metadata"]
    notes = {**metadata["annotations"], labels.PROCESSES: ",".join(names)}
    return {**manifest, "metadata": {**metadata, "annotations": notes}}


def _secured(spec: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """What the user added, or took away, does not leave its box by saying nothing."""
    lists = {name: spec[name] for name in ("containers", "initContainers") if name in spec}
    return {
        **spec,
        **{name: [containers.secured(each, settings) for each in every] for name, every in lists.items()},
        "automountServiceAccountToken": spec.get("automountServiceAccountToken", False),
        "securityContext": {"seccompProfile": _SECCOMP, **spec.get("securityContext", {})},
    }


def marked(manifest: Mapping[str, Any], attempt: str) -> dict[str, Any]:
    """The manifest with what it is made of, and which start it is."""
    metadata = manifest["metadata"]
    notes = {
        **metadata["annotations"],
        labels.DIGEST: labels.digest(manifest["spec"]),
        labels.ATTEMPT: attempt,
    }
    return {**manifest, "metadata": {**metadata, "annotations": notes}}


def _clones(of: PodOfPlan, settings: Settings) -> list[dict[str, Any]]:
    mounts = [mount for process in of.processes for mount in process.mounts]
    taken = [process.name for process in of.processes]
    user = "runAsUser" in mapping(of.settings.pod_yml, "spec", "securityContext")
    result: list[dict[str, Any]] = []
    for volume, repository in volumes.repositories(mounts).items():
        name = _unlike(f"clone-{volume}"[:MAX_NAME].rstrip("-"), taken)
        taken.append(name)
        result.append(containers.clone(name, volume, repository, settings, user=user))
    return result


def _unlike(name: str, taken: Sequence[str]) -> str:
    """A name of its own: init containers and containers share their names."""
    number, result = 1, name
    while result in taken:
        number += 1
        result = f"{name[: MAX_NAME - 5]}-{number}"
    return result


def _toleration(toleration: Toleration) -> dict[str, str | int]:
    fields = asdict(toleration)
    fields["tolerationSeconds"] = fields.pop("toleration_seconds")
    return {name: value for name, value in fields.items() if value is not None}
