"""Prepares the objects of a plan: reads the cluster, and deletes pods that conflict with the plan.

Unlike on tmux, this happens in the user's program. Each manifest carries the attempt of
the pod in the cluster, also under a plain `pulumi up` or in a script, where no symphony command runs before
the engine. A resource cannot read the attempts: outputs of a changed resource are unknown in a preview, which
would then replace every pod. An interrupted run may have left pods that no state records; the engine cannot
delete them, and Pulumi's plugin would adopt them. The engine replaces few pods at a time; here all of them
end at once.
"""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pulumi
from pulumi.runtime.rpc import UNKNOWN

# As pulumi.runtime.invoke waits.
from pulumi.runtime.sync_await import _sync_await  # pyright: ignore[reportPrivateUsage, reportUnknownVariableType]

from symphony.backends import local_files
from symphony.backends.expand import Context
from symphony.backends.kubernetes import dry_run, inventory, prerequisites, settings, supervisor
from symphony.backends.kubernetes.api import kubeconfig
from symphony.backends.kubernetes.api.client import Body, Client, client_of, path_of
from symphony.backends.kubernetes.api.fields import mapping, text
from symphony.backends.kubernetes.inventory import Inventory
from symphony.backends.kubernetes.manifests import labels, render, workloads
from symphony.backends.kubernetes.manifests.render import Manifest, Manifests
from symphony.errors import UserError
from symphony.placement.pool import Pool
from symphony.plan.plan import Plan
from symphony.plan.problems import PlanError
from symphony.spec.experiment import ExperimentSpec

# A changed attempt replaces an object; a changed digest replaces a pod.
ATTEMPT = f'metadata.annotations["{labels.ATTEMPT}"]'
DIGEST = f'metadata.annotations["{labels.DIGEST}"]'
_CLUSTER_KEY = "symphony:cluster"
_CLUSTER_CACHE = "_symphony_clusters"
_KINDS = {"Namespace": "namespaces", "ConfigMap": "configmaps", "Secret": "secrets", "Service": "services"}


@dataclass(frozen=True)
class ClusterStack:
    """The outputs of a stack with a GkeCluster; name: organization/project/stack."""

    name: str
    kubeconfig: str
    registry: str
    pools: tuple[Pool, ...]


@dataclass(frozen=True)
class ClusterConnection:
    """The connection to the cluster of a stack; kubeconfig is a path or the text itself."""

    kubeconfig: str
    context: str

    @property
    def client(self) -> Client:
        return client_of(self.kubeconfig, self.context)


@dataclass(frozen=True)
class Prepared:
    """The objects to register.

    replaced: the names in the cluster of pods and Jobs to replace: those that differ from the plan.
    ending: path -> uid of the objects to delete first, all at once.
    """

    plan: Plan
    manifests: Manifests
    replaced: frozenset[str]
    connection: ClusterConnection
    grace: int
    ending: Mapping[str, str] = field(default_factory=dict[str, str])


def prepare(plan: Plan, spec: ExperimentSpec, context: Context) -> Prepared:
    """Return the objects of the plan; delete undeclared objects and unrecorded conflicts.

    Wait for the end of these; a dry or partial run deletes nothing. `expand` deletes the recorded conflicts
    (`ending`); the engine waits for their end.
    """
    chosen = settings.settings_of(context)
    files = local_files.contents((*plan.secrets, *plan.configs))
    if context.offline:
        manifests = render.render(plan, chosen, context.owner, files=files)
        return Prepared(plan, manifests, frozenset(), ClusterConnection("", ""), chosen.grace_seconds)
    prerequisites.require_plugin(prerequisites.KUBERNETES)
    connection = connection_of(context)
    client, owner = connection.client, context.owner
    live = inventory.read(client, plan.physical_name)
    manifests = render.render(
        plan,
        chosen,
        owner,
        attempt=lambda name, kind: inventory.attempt(live, owner, name, kind),
        files=files,
        key=_digest_key(plan, client, chosen),
    )
    refused = dry_run.check(client, plan.physical_name, manifests, spec)
    if problems := [*refused, *dry_run.check_metrics(client, spec)]:
        raise PlanError(context.stack or plan.physical_name, problems)
    planned = _planned_names(manifests)
    inventory.refuse_foreign_objects(client, live, plan.physical_name, owner, planned)
    inventory.refuse_stuck_pods(live, owner, [*planned["pods"], *planned["jobs"]])
    stale = {
        name: uids
        for name, (_, manifest) in manifests.pods.items()
        if (uids := inventory.stale(live, owner, manifest))
    }
    manifests, resumed = _with_resumed_pods(plan, chosen, manifests, live, stale)
    stale |= {
        name: inventory.stale(live, owner, manifest)
        for name, (_, manifest) in manifests.pods.items()
        if name in resumed
    }
    manifests = _with_new_supervisor(manifests, live, bool(stale) or context.is_partial)
    if manifests.supervisor and (uids := inventory.stale(live, owner, manifests.supervisor[-1])):
        stale[labels.SUPERVISOR] = uids
    ending: dict[str, str] = {}
    if not context.dry_run and not context.is_partial:
        ending = {path: uid for uids in stale.values() for path, uid in uids.items()}
        # Under a plain `pulumi` the recorded uids are unknown: all conflicts count as unrecorded.
        unrecorded = {path: uid for path, uid in ending.items() if uid not in (context.recorded or ())}
        inventory.end_orphans(client, live, plan.physical_name, owner, planned, unrecorded)
    annotated = annotate_all(client, live.services, manifests, stale if context.dry_run else ())
    replaced = frozenset(map(chosen.object_name, stale))
    return Prepared(plan, annotated, replaced, connection, chosen.grace_seconds, ending)


def _with_resumed_pods(
    plan: Plan, chosen: settings.Settings, manifests: Manifests, live: Inventory, stale: Collection[str]
) -> tuple[Manifests, set[str]]:
    """Return the manifests with new attempts for the pods to resume, and the names of these pods.

    The completion of the primaries stopped them; they start again if a primary starts again.
    """
    live_pods = {**live.pods, **live.job_pods}
    primaries = {path.partition("/")[0] for path in plan.ends.primary}
    if not any(name in stale or chosen.object_name(name) not in live_pods for name in primaries):
        return manifests, set()
    stopped = {name for name, pod in live_pods.items() if supervisor.note(pod, supervisor.STOPPED)}
    resumed = {name for name in manifests.pods if chosen.object_name(name) in stopped and name not in stale}
    new_attempt = {labels.ATTEMPT: str(int(time.time()))}
    pods = {
        name: (group, labels.annotated(manifest, new_attempt) if name in resumed else manifest)
        for name, (group, manifest) in manifests.pods.items()
    }
    return replace(manifests, pods=pods), resumed


def _with_new_supervisor(manifests: Manifests, live: Inventory, starts: bool) -> Manifests:
    """Return the manifests with a new attempt of the supervisor if it has ended and pods start or wait.

    starts: whether the run starts pods that exist.
    """
    job = live.jobs.get(_name(manifests.supervisor[-1])) if manifests.supervisor else None
    names = [_name(manifest) for _, manifest in manifests.pods.values()]
    starts = starts or any(name not in live.pods and name not in live.jobs for name in names)
    pods = [pod for pod in ({**live.pods, **live.job_pods}.get(name) for name in names) if pod is not None]
    starts = starts or any(
        supervisor.is_gated(pod) and not supervisor.note(pod, supervisor.STOPPED) for pod in pods
    )
    if job is None or not workloads.completion(job) or not starts:
        return manifests
    new_job = labels.annotated(manifests.supervisor[-1], {labels.ATTEMPT: str(int(time.time()))})
    return replace(manifests, supervisor=(*manifests.supervisor[:-1], new_job))


def annotate_all(
    client: Client, services: Mapping[str, Body], manifests: Manifests, unknown: Collection[str]
) -> Manifests:
    """Return the manifests, annotated with the attempts of their objects in the cluster, or new attempts.

    services: the Services in the cluster, by name. unknown: the names in the plan of pods whose attempt only
    the run decides. An unknown annotation makes Pulumi's plugin skip its dry run in a preview. The server
    would reject it as a forbidden change of the running pod, and the preview would fail.
    """
    return replace(
        manifests,
        namespace=_annotate(client, services, manifests.namespace) if manifests.namespace else None,
        files=tuple(_annotate(client, services, file) for file in manifests.files),
        supervisor=tuple(
            labels.annotated(manifest, {labels.ATTEMPT: UNKNOWN})
            if labels.SUPERVISOR in unknown and manifest["kind"] == workloads.JOB
            else manifest
            for manifest in manifests.supervisor
        ),
        services={name: _annotate(client, services, body) for name, body in manifests.services.items()},
        pods={
            name: (group, labels.annotated(pod, {labels.ATTEMPT: UNKNOWN}) if name in unknown else pod)
            for name, (group, pod) in manifests.pods.items()
        },
    )


def _annotate(client: Client, services: Mapping[str, Body], manifest: Manifest) -> Manifest:
    """Return the manifest with its object's attempt, or a new attempt if the object is missing.

    Otherwise a deleted namespace would stay missing: the engine does not look into the cluster if a program
    has not changed.
    """
    metadata = manifest["metadata"]
    kind, name, namespace = manifest["kind"], metadata["name"], metadata.get("namespace", "")
    live = services.get(name) if kind == "Service" else client.find(path_of(_KINDS[kind], namespace, name))
    attempt = labels.annotation(live, labels.ATTEMPT) if live is not None else str(int(time.time()))
    edited = _edited_version(live, manifest) if live is not None and kind in ("ConfigMap", "Secret") else ""
    annotations = {labels.ATTEMPT: attempt, labels.EDITED: edited}
    return labels.annotated(manifest, {name: text for name, text in annotations.items() if text})


def _edited_version(live: Body, manifest: Manifest) -> str:
    """Return the version of the object if others have edited its contents, now or before the last `up`.

    The engine compares only with its state, which does not contain edits by others.
    """
    for name in ("data", "binaryData"):
        if mapping(manifest, name) != mapping(live, name):
            return text(live, "metadata", "resourceVersion")
    return labels.annotation(live, labels.EDITED)


def _digest_key(plan: Plan, client: Client, chosen: settings.Settings) -> bytes:
    """Return the key of the digests of secrets, which all users of the stack read from the cluster."""
    if not any(process.secret_env for process in plan.processes):
        return b""
    secret = client.find(path_of("secrets", plan.physical_name, chosen.object_name(labels.SECRET_ENV)))
    key = text(secret, "data", labels.DIGEST_KEY)
    return base64.b64decode(key) if key else secrets.token_bytes(32)


def cluster_of(context: Context) -> ClusterStack | None:
    """Return the cluster of the stack that symphony:cluster names; None without the setting."""
    name = settings.settings_of(context).cluster
    return _read_stack(name, context.project) if name else None


def connection_of(context: Context) -> ClusterConnection:
    """Return the connection that the configuration names with a kubeconfig, else with a cluster's stack."""
    config = str(context.settings.config.get("kubernetes:kubeconfig") or "")
    kube_context = str(context.settings.config.get("kubernetes:context") or "")
    if not config and (cluster := cluster_of(context)):
        return ClusterConnection(cluster.kubeconfig, kube_context)
    return ClusterConnection(kubeconfig.resolve(config, context.folder), kube_context)


def _planned_names(manifests: Manifests) -> dict[str, list[str]]:
    """Return the names of the planned objects, by kind."""
    pods: dict[str, list[str]] = {"pods": [], "jobs": []}
    for _, manifest in manifests.pods.values():
        pods["pods" if manifest["kind"] == workloads.POD else "jobs"].append(_name(manifest))
    pods["jobs"] += map(_name, manifests.supervisor[-1:])
    return {
        **pods,
        "services": [_name(service) for service in manifests.services.values()],
        "configmaps": [_name(file) for file in manifests.files if file["kind"] == "ConfigMap"],
        "secrets": [_name(file) for file in manifests.files if file["kind"] == "Secret"],
    }


def _name(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])


def _read_stack(reference: str, project: str) -> ClusterStack:
    """Return the cluster of a stack, `gke` of the same project or `project/gke`.

    Raises:
        UserError: The stack has no cluster, or is not up yet.
    """
    # Cached for the run of the program.
    root: Any = pulumi.runtime.get_root_resource()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    clusters: dict[str, ClusterStack] = root.__dict__.setdefault(_CLUSTER_CACHE, {})
    name = _full_name(reference, project)
    if name not in clusters:
        clusters[name] = _cluster(name, _stack_outputs(name), reference)
    return clusters[name]


def find_cluster(reference: str, project: str) -> ClusterStack | None:
    """Return the cluster of a stack; None if that stack does not exist or is not up."""
    name = _full_name(reference, project)
    try:
        # Not a StackReference, which would end the run if the stack does not exist.
        answer: Any = pulumi.runtime.invoke("pulumi:pulumi:readStackOutputs", {"name": name})  # pyright: ignore[reportUnknownMemberType]
    except Exception:
        return None
    outputs = mapping(answer.value, "outputs")
    return _cluster(name, outputs, reference) if outputs else None


def _full_name(reference: str, project: str) -> str:
    *parents, stack = reference.split("/")
    organization = parents[0] if len(parents) > 1 else pulumi.get_organization()
    return f"{organization}/{parents[-1] if parents else project}/{stack}"


def _stack_outputs(name: str) -> Mapping[str, Any]:
    """Return the outputs of a stack as plain values, since a plan cannot contain Outputs.

    The StackReference is recorded in the state, so that `delete` of the cluster's stack knows that it is in
    use. If the stack does not exist, the engine ends the program.
    """
    reference = pulumi.StackReference(name)
    return _sync_await(reference.outputs.future()) or {}


def _cluster(name: str, outputs: Mapping[str, Any], reference: str) -> ClusterStack:
    if not outputs:
        stack = name.rpartition("/")[2]
        remedy = f"Run `symphony up {stack}` first"
        raise UserError(f"the cluster's stack {stack} has no outputs yet", where=_CLUSTER_KEY, remedy=remedy)
    try:
        pools = tuple(map(Pool.from_json, outputs["pools"]))
        return ClusterStack(name, str(outputs["kubeconfig"]), str(outputs.get("registry") or ""), pools)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"the stack {reference} has no cluster among its outputs",
            where=_CLUSTER_KEY,
            remedy="Name the stack whose program declares a GkeCluster",
        ) from error
