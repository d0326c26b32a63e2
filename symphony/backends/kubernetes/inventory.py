"""Lists the objects of an experiment in its cluster, and deletes undeclared objects."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from symphony import paths
from symphony.backends.kubernetes import pod_status, supervisor
from symphony.backends.kubernetes.api.client import Body, Client, Forbidden, Refused, path_of
from symphony.backends.kubernetes.api.fields import listing, text, texts
from symphony.backends.kubernetes.manifests import labels, workloads
from symphony.errors import SymphonyError, UserError
from symphony.plan.names import is_label, physical_name

GONE_DEADLINE = 60.0
_JOB_FINALIZER = "batch.kubernetes.io/job-tracking"
# The maximum number of objects in a message.
_MAX_LISTED = 10
_OTHER_NAMESPACE = "rename the stack, or set symphony:namespace to another"


@dataclass(frozen=True)
class Inventory:
    """The pods, Services and Jobs of a namespace.

    Attributes:
        pods: The pods without a controller, by name.
        services: The Services without a controller, by name.
        jobs: symphony's Jobs, by name.
        job_pods: The pods with a controller, also others' in the namespace; those of Jobs by the Jobs' names.
        now: The time of the server's clock.
    """

    pods: Mapping[str, Body]
    services: Mapping[str, Body]
    jobs: Mapping[str, Body]
    job_pods: Mapping[str, Body] = field(default_factory=dict[str, Body])
    now: float = field(default_factory=time.time)


def recorded_identifier(client: Client, namespace: str) -> str:
    """Return the identifier of the cluster as the user who created this namespace read it.

    A user with other rights would read another one, for which the engine replaces every object.
    """
    with contextlib.suppress(Forbidden):
        body = client.find(path_of("namespaces", name=namespace)) or {}
        if recorded := text(body, "metadata", "annotations", labels.CLUSTER):
            return recorded
    return identifier(client)


@cache
def identifier(client: Client, shared: str = "") -> str:
    """Return a uid that identifies this cluster, whose addresses and names may change.

    Args:
        client: The cluster.
        shared: A namespace that the experiment did not create, where all its users can read the same uid;
            kube-system is readable by administrators only.

    Raises:
        Refused: The cluster refuses the request for another reason than missing rights. Without the rights,
            the uid is the address of the server.
    """
    readable = [path_of("configmaps", shared, "kube-root-ca.crt")] if shared else []
    for path in (*readable, path_of("namespaces", name="kube-system")):
        with contextlib.suppress(Forbidden):
            if body := client.find(path):
                return str(body["metadata"]["uid"])
    return client.access.server


def namespace_conflict(client: Client, namespace: str, owner: str, *, create: bool) -> tuple[str, str] | None:
    """Return why the experiment may not use this namespace, and the remedy; None if it may."""
    try:
        existing = client.find(path_of("namespaces", name=namespace))
    except Forbidden as error:
        if not create:
            return None
        remedy = (
            "Ask an administrator to create the namespace with the Role that `symphony rbac` prints,"
            " and set symphony:createNamespace to false"
        )
        raise Forbidden(error.status, error.reason, error.what, remedy) from error
    if existing is None:
        why = "does not exist, and symphony:createNamespace is false"
        remedy = "ask an administrator to create it, or remove symphony:createNamespace"
        return None if create else (why, remedy)
    if _is_ending(existing):
        return f"is still being deleted{_blockers(existing)}", "wait until it is deleted, and run `up` again"
    if labels.belongs_to(existing, owner):
        why = "was created by symphony, and symphony:createNamespace is false"
        return None if create else (why, "remove symphony:createNamespace")
    if other := labels.annotation(existing, labels.OWNER):
        return f"belongs to {paths.owner_label(other, owner)}", _OTHER_NAMESPACE
    if not create:
        return None
    remedy = (
        f"set symphony:createNamespace to false if an administrator created it for you, {_OTHER_NAMESPACE}"
    )
    return "already exists, and symphony did not create it", remedy


def read(client: Client, namespace: str) -> Inventory:
    """Return the objects of a namespace; empty if it does not exist."""
    pods, services = (client.items(path_of(kind, namespace)) for kind in ("pods", "services"))
    job_pods = labels.by_pod(filter(workloads.is_controlled, pods))
    jobs = _jobs(client, namespace)
    return Inventory(
        _uncontrolled(pods), _uncontrolled(services), _uncontrolled(jobs), job_pods, server_time(client)
    )


def _uncontrolled(objects: Iterable[Body]) -> dict[str, Body]:
    """Return the objects that have no controller, by name."""
    return {str(body["metadata"]["name"]): body for body in objects if not workloads.is_controlled(body)}


def server_time(client: Client) -> float:
    """Return the time of the API server's clock, in seconds since the epoch."""
    return time.time() + client.clock_skew


def _jobs(client: Client, namespace: str) -> list[Body]:
    """Return symphony's Jobs; empty if the user may not list Jobs."""
    try:
        jobs = client.items(path_of("jobs", namespace), labelSelector=labels.OURS)
    except Refused as refused:
        if refused.status not in (403, 404):
            raise
        return []
    return [{**job, "kind": workloads.JOB} for job in jobs]


def active_jobs(client: Client, namespace: str) -> dict[str, Body]:
    """Return symphony's Jobs that may create another pod, by name."""
    jobs = jobs_not_failed(client, namespace)
    return {name: job for name, job in jobs.items() if not workloads.completion(job)}


def jobs_not_failed(client: Client, namespace: str) -> dict[str, Body]:
    """Return symphony's Jobs that have not failed, by name; some may be complete."""
    jobs = _uncontrolled(_jobs(client, namespace))
    return {name: job for name, job in jobs.items() if not workloads.has_failed(job)}


def pod_of(client: Client, namespace: str, name: str) -> Body | None:
    """Return a pod by the name of its manifest; the pods of a Job have other names in the cluster."""
    items = client.items(path_of("pods", namespace), labelSelector=f"{labels.POD}={name}")
    return labels.by_pod(items).get(name)


def refuse_foreign_objects(
    client: Client, live: Inventory, namespace: str, owner: str, planned: Mapping[str, Collection[str]]
) -> None:
    """Raise UserError if objects of other owners have names that the plan needs."""
    listings = (
        ("pod", "pods", live.pods),
        (workloads.JOB, "jobs", live.jobs),
        ("Service", "services", live.services),
    )
    existing = [
        (kind, bodies[name])
        for kind, plural, bodies in listings
        for name in planned[plural]
        if name in bodies
    ]
    for plural in ("configmaps", "secrets"):
        files = [client.find(path_of(plural, namespace, name)) for name in planned[plural]]
        existing += [(plural[:-1], file) for file in files if file is not None]
    foreign: dict[str, list[str]] = {}
    for kind, body in existing:
        if not labels.belongs_to(body, owner):
            other = labels.annotation(body, labels.OWNER)
            other_owner = paths.owner_label(other, owner) if other else "another user or program"
            foreign.setdefault(other_owner, []).append(f"the {kind} {body['metadata']['name']}")
    if foreign:
        conflicts = [f"{_belongs(names, namespace)} to {other}" for other, names in foreign.items()]
        remedy = "Rename the stack or its processes and services, or set symphony:namespace to another"
        raise UserError("; ".join(conflicts), remedy=remedy)


def refuse_stuck_pods(live: Inventory, owner: str, pods: Collection[str]) -> None:
    """Raise UserError if pods to replace are stuck in Terminating, for instance on a dead machine.

    A Job creates no other pod before they end. Only the user can know that the machine is dead, and two
    copies of a process would be worse than none.
    """
    blocked: dict[str, list[str]] = {}
    for name in pods:
        pod = live.pods.get(name) or live.job_pods.get(name)
        if pod is not None and labels.belongs_to(pod, owner) and is_overdue(pod, live.now):
            blocked.setdefault(str(pod["spec"]["nodeName"]), []).append(name)
    if blocked:
        by_node = [f"{', '.join(names[:_MAX_LISTED])} on {node}" for node, names in blocked.items()]
        nodes = " ".join(blocked)
        raise UserError(
            f"pods to replace are stuck in Terminating, and their nodes do not answer: {'; '.join(by_node)}",
            remedy=f"If the machines are lost for good, run `kubectl delete node {nodes}`, then `up` again",
        )


def is_overdue(pod: Mapping[str, Any], now: float) -> bool:
    """Return whether kubelet should have ended a pod long ago, and nothing else holds it."""
    due = pod_status.epoch(pod["metadata"].get("deletionTimestamp"))
    # The Job's finalizer only waits for the end of the pod.
    has_finalizers = any(name != _JOB_FINALIZER for name in texts(pod, "metadata", "finalizers"))
    is_held = has_finalizers or not pod.get("spec", {}).get("nodeName")
    return due is not None and not is_held and now - due > GONE_DEADLINE


def _belongs(names: Sequence[str], namespace: str) -> str:
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    verb = "belongs" if len(names) == 1 else "belong"
    return f"{', '.join(names[:_MAX_LISTED])}{more} in namespace {namespace} {verb}"


def attempt(live: Inventory, owner: str, name: str, controller: str = workloads.POD) -> str:
    """Return the attempt of a pod: its present one if the next `up` keeps the pod, else a new one.

    The engine does not look into the cluster if a program has not changed. A pod that failed or was lost is
    re-created because its attempt differs from the state's.
    """
    body = (live.pods if controller == workloads.POD else live.jobs).get(name)
    if body is not None and labels.belongs_to(body, owner) and _is_kept(live, body) and not _is_ending(body):
        return labels.annotation(body, labels.ATTEMPT) or "1"
    return str(int(time.time()))


def _is_kept(live: Inventory, body: Body) -> bool:
    """Return whether the next `up` leaves a pod or a Job alone.

    It leaves a Job whose pod was stopped because the experiment completed, but not for another reason.
    """
    if body.get("kind") != workloads.JOB:
        return pod_status.is_good(body)
    pod = live.job_pods.get(str(body["metadata"]["name"]))
    if pod is not None and supervisor.note(pod, supervisor.STOPPED) and not pod_status.is_good(pod):
        return False
    return not workloads.has_failed(body)


def stale(live: Inventory, owner: str, manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return path -> uid of this owner's objects to delete before this pod, or its Job, is created."""
    name, namespace = str(manifest["metadata"]["name"]), str(manifest["metadata"]["namespace"])
    uids: dict[str, str] = {}
    for objects in (live.pods, live.jobs):
        body = objects.get(name)
        if body is not None and labels.belongs_to(body, owner) and not _matches(body, manifest):
            kind = str(body.get("kind") or workloads.POD)
            uids[path_of(f"{kind.lower()}s", namespace, name)] = str(body["metadata"]["uid"])
    return uids


def _matches(body: Body, manifest: Mapping[str, Any]) -> bool:
    if (body.get("kind") or workloads.POD) != manifest["kind"]:
        return False
    if supervisor.is_gated(workloads.pod_in(body)) and not supervisor.is_gated(workloads.pod_in(manifest)):
        # Without waiting pods in the plan, no supervisor would remove the gate.
        return False
    notes = (labels.DIGEST, labels.ATTEMPT)
    return all(labels.annotation(body, note) == labels.annotation(manifest, note) for note in notes)


def end_pods(client: Client, namespace: str, owner: str) -> None:
    """Delete every pod of the namespace if this stack created it and the user may; do not wait."""
    with contextlib.suppress(Refused):
        existing = client.find(path_of("namespaces", name=namespace))
        if existing is not None and labels.belongs_to(existing, owner):
            client.request("DELETE", path_of("pods", namespace))


def end_all(client: Client, namespace: str, owner: str) -> None:
    """Delete the namespace if this stack created it, else the stack's objects in it; wait for the end."""
    path = path_of("namespaces", name=namespace)
    try:
        existing = client.find(path)
    except Forbidden:
        # A user who may not read namespaces did not create one.
        existing = None
    if existing is not None and labels.belongs_to(existing, owner):
        end_pods(client, namespace, owner)
        client.delete(path, str(existing["metadata"]["uid"]))
        pods = client.items(path_of("pods", namespace))
        await_gone(client, path, str(existing["metadata"]["uid"]), max(map(_grace, pods), default=0))
        return
    rights = {
        path_of(kind, namespace, name): str(body["metadata"]["uid"])
        for kind in ("rolebindings", "roles", "serviceaccounts")
        for name, body in _labelled(client, namespace, kind, owner).items()
        if labels.belongs_to(body, owner)
    }
    end_orphans(client, read(client, namespace), namespace, owner, {}, rights)


def await_gone(client: Client, path: str, uid: str, grace: int = 0) -> None:
    """Wait until an object no longer exists.

    grace: the grace period of the processes in it; a pod's own period is read from the pod.

    Raises:
        SymphonyError: The object still exists; the error names what blocks its deletion.
    """
    began = time.monotonic()
    while (body := client.find(path)) and body["metadata"]["uid"] == uid:
        patience = GONE_DEADLINE + max(grace, _grace(body))
        if time.monotonic() - began > patience:
            name, blockers = body["metadata"]["name"], _blockers(body)
            step = "Remove what blocks its deletion" if blockers else "Read `kubectl describe` of it"
            raise SymphonyError(
                f"{name} still exists after {patience:.0f} s{blockers}",
                remedy=f"{step}, and run the same command again",
            )
        time.sleep(0.2)


def _grace(body: Body) -> int:
    """Return the grace period of an object that is being deleted, in seconds."""
    return int(body["metadata"].get("deletionGracePeriodSeconds") or 0)


def deletion_blockers(client: Client, namespace: str) -> str:
    """Return the cluster's description of what blocks the deletion of a namespace, or an empty string."""
    with contextlib.suppress(Forbidden):
        existing = client.find(path_of("namespaces", name=namespace))
        if existing is not None and _is_ending(existing):
            return _blockers(existing).removeprefix(": ")
    return ""


def end_orphans(
    client: Client,
    live: Inventory,
    namespace: str,
    owner: str,
    planned: Mapping[str, Collection[str]],
    more: Mapping[str, str],
) -> None:
    """Delete every undeclared Job, pod, Service, ConfigMap and Secret of the owner; wait for their end.

    An interrupted run leaves such objects.

    planned: the names of the declared objects, by kind.
    more: path -> uid of more objects to delete.
    """
    live_objects: dict[str, Mapping[str, Body]] = {
        "jobs": live.jobs,
        "pods": live.pods,
        "services": live.services,
        **{kind: _labelled(client, namespace, kind, owner) for kind in ("configmaps", "secrets")},
    }
    orphans = [
        (path_of(kind, namespace, name), str(body["metadata"]["uid"]))
        for kind, bodies in live_objects.items()
        for name, body in bodies.items()
        if name not in planned.get(kind, ()) and labels.belongs_to(body, owner)
    ]
    orphans += more.items()
    for path, uid in orphans:
        client.delete(path, uid)
    for path, uid in orphans:
        await_gone(client, path, uid)


def _labelled(client: Client, namespace: str, kind: str, owner: str) -> dict[str, Body]:
    """Return the objects of a kind with the label of an experiment; empty if the user may not list any."""
    # Only this experiment's: others in a shared namespace may be large, and secret.
    names = filter(is_label, (namespace, physical_name(paths.stack_of(owner), label=True)))
    selector = f"{labels.EXPERIMENT} in ({','.join(names)})"
    with contextlib.suppress(Forbidden):
        bodies = client.items(path_of(kind, namespace), labelSelector=selector)
        return {str(body["metadata"]["name"]): body for body in bodies}
    return {}


def _is_ending(body: Body) -> bool:
    return bool(body["metadata"].get("deletionTimestamp"))


def _blockers(body: Body) -> str:
    """Return the finalizers of an object, and the conditions of a namespace, that block its deletion."""
    finalizers = texts(body, "metadata", "finalizers")
    blockers = [f"held by {', '.join(finalizers)}"] if finalizers else []
    for condition in listing(body, "status", "conditions"):
        if condition.get("status") == "True" and str(condition.get("type")).startswith("Namespace"):
            blockers.append(str(condition.get("message")))
    return f": {'; '.join(blockers)}" if blockers else ""
