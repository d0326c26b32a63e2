"""The Kubernetes backend's `observe`: the status of processes, from the state and a listing of pods."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from symphony.backends.kubernetes import admission, identity, inventory, pod_status, reasons, supervisor
from symphony.backends.kubernetes import watch as watching
from symphony.backends.kubernetes.api import kubeconfig
from symphony.backends.kubernetes.api.client import (
    METRICS_API,
    Body,
    Client,
    Refused,
    client_of,
    path_of,
    short_timeouts,
)
from symphony.backends.kubernetes.api.fields import Values, listing, mapping, text
from symphony.backends.kubernetes.identity import client_for
from symphony.backends.kubernetes.manifests import labels, workloads
from symphony.backends.kubernetes.reasons import JobStatus
from symphony.backends.observe import (
    LIMIT,
    PATIENCE,
    PROCESS_TYPE,
    Link,
    LogLine,
    Owned,
    ProcessStatus,
    Recorded,
    Resource,
    Usage,
    not_created,
)
from symphony.errors import SymphonyError
from symphony.placement.quantities import amount
from symphony.plan.names import DECLARED

SERVICE_TYPE = "kubernetes:core/v1:Service"
NAMESPACE_TYPE = "kubernetes:core/v1:Namespace"
# Other objects of an experiment, all of the core API: the type in the state -> the name in API paths.
_RECORDED_KINDS = {
    SERVICE_TYPE: "services",
    "kubernetes:core/v1:ConfigMap": "configmaps",
    "kubernetes:core/v1:Secret": "secrets",
}
# The end of the URN of the provider that `expand()` registers: the program may have other providers.
_PROVIDER = "symphony:index:Experiment$pulumi:providers:kubernetes::kubernetes"


def recorded(owner: str, resources: Sequence[Resource]) -> Recorded | None:
    """Return the experiment that the state records on Kubernetes; None if there is none."""
    processes: dict[str, dict[str, Any]] = {}
    connection: dict[str, str] = {}
    balanced: dict[str, list[str]] = {}
    objects: dict[str, str] = {}
    namespace, supervisor_name = "", ""
    waits: dict[str, list[Mapping[str, Any]]] = {}
    for resource in resources:
        if resource.type == PROCESS_TYPE:
            waits[resource.name] = listing(resource.inputs, DECLARED, "waits_for")
        if resource.type in _RECORDED_KINDS and _is_ours(resource):
            objects.update(_recorded_object(resource))
        if resource.urn.endswith(_PROVIDER):
            connection |= {
                name: text(resource.inputs, name) for name in ("kubeconfig", "context", "clusterIdentifier")
            }
        elif resource.type == SERVICE_TYPE and (found := reasons.load_balanced_pod(resource.inputs)):
            pod, service = found
            balanced.setdefault(pod, []).append(service)
        elif resource.type == NAMESPACE_TYPE and _is_ours(resource):
            namespace = text(resource.inputs, "metadata", "name")
            connection[identity.NAMESPACE] = text(resource.outputs, "metadata", "uid")
        elif text(resource.inputs, "metadata", "labels", supervisor.SUPERVISOR):
            supervisor_name = text(resource.inputs, "metadata", "name")
        elif resource.type in workloads.KINDS and _is_ours(resource):
            namespace = text(resource.inputs, "metadata", "namespace")
            processes.update(_processes(resource))
    if not namespace:
        return None
    for process in processes.values():
        # The processes of a pod start together, so each waits for the dependencies of all.
        in_pod = [path for path, other in processes.items() if other["pod_name"] == process["pod_name"]]
        process["waits_for"] = [wait for path in in_pod for wait in waits.get(path, ())]
        process["supervisor"] = supervisor_name
        process["balanced"] = balanced.get(str(process["pod_name"]), [])
    return Recorded(
        owner,
        namespace,
        processes,
        connection=connection,
        objects=objects,
        not_created=not_created(resources, processes),
    )


def statuses(recorded: Sequence[Recorded]) -> list[list[ProcessStatus] | SymphonyError]:
    """Return the statuses of each experiment, or the error that prevented reading them."""
    unreachable: dict[tuple[str, str], SymphonyError] = {}
    with short_timeouts():
        return [_statuses(experiment, unreachable) for experiment in recorded]


def restart_reasons(recorded: Recorded) -> dict[str, str]:
    """Return why the next `up` restarts processes whose settings did not change, by their paths."""
    client = client_for(recorded)
    pods = pods_of(client, recorded.physical_name)
    job_statuses = _job_statuses(client, recorded, pods)
    reasons_by_path: dict[str, str] = {}
    for path, process in recorded.processes.items():
        pod = pods.get(process["pod_name"])
        if process["pod_name"] in job_statuses:
            continue
        if pod is None:
            reasons_by_path[path] = "its pod no longer exists"
        elif not pod_status.is_good(pod):
            status = pod_status.status(path, process["container_name"], pod)
            # Otherwise another process of the pod failed.
            has_own_fault = status.state in ("failed", "lost", "blocked", "stopped")
            reasons_by_path[path] = f"{status.state}: {status.why}" if has_own_fault else "its pod failed"
    return reasons_by_path


def logs(
    recorded: Recorded,
    paths: Sequence[str],
    *,
    alive: Callable[[], bool] | None = None,
    since: float | None = None,
    tail: int | None = None,
) -> Iterator[LogLine]:
    """Yield the output of processes, merged by time; with alive, also of their next starts."""
    # Imported here: only `logs` needs it.
    from symphony.backends.kubernetes import logs as log_lines

    processes = ((path, recorded.processes[path]) for path in paths)
    containers = [
        log_lines.Container(path, process["pod_name"], process["container_name"])
        for path, process in processes
    ]
    client, namespace = client_for(recorded), recorded.physical_name
    return log_lines.merge(client, namespace, containers, alive=alive, since=since, tail=tail)


def watch(
    recorded: Recorded, *, patience: float = PATIENCE, limit: float = LIMIT
) -> Iterator[tuple[ProcessStatus, ...]]:
    """Yield the statuses at once and after every change, until waiting longer would not help."""
    client = client_for(recorded)
    reported = watching.Reported()
    missing = _not_created(client, recorded)

    def look(pods: Mapping[str, Body], thorough: bool) -> tuple[ProcessStatus, ...]:
        job_statuses = _job_statuses(client, recorded, pods)
        if thorough:
            reported.events = reasons.pod_troubles(client, recorded.physical_name, pods.values())
            reported.pending = _pending_balancers(client, recorded)
        reported.finished = {name for name, (state, *_) in job_statuses.items() if state == "completed"}
        statuses = _status_of(recorded, pods, reported.events, job_statuses)
        return (*_with_balancers(recorded, statuses, reported.pending), *missing)

    pod_names = {str(process["pod_name"]) for process in recorded.processes.values()}
    supervisors = {str(process.get("supervisor", "")) for process in recorded.processes.values()} - {""}
    names = pod_names | supervisors
    reported.late = _behind_completions(recorded)
    return watching.watch(client, recorded.physical_name, names, look, reported, patience, limit)


def _behind_completions(recorded: Recorded) -> set[str]:
    """Return the pods that wait, directly or indirectly, until another process completes or ends."""
    late: set[str] = set()
    while True:
        more = {
            str(process["pod_name"])
            for process in recorded.processes.values()
            for wait in listing(process, "waits_for")
            if wait["condition"] in ("completed", "ended")
            or text(recorded.processes.get(wait["path"]), "pod_name") in late
        }
        if more <= late:
            return late
        late |= more


def why(recorded: Recorded, path: str, name: str) -> Sequence[Link]:
    """Return the chain of steps that led a process to its state, up to the one where it stopped or waits."""
    # Imported here: only `why` needs it.
    from symphony.backends.kubernetes.why import read_chain

    return read_chain(client_for(recorded), recorded, path, name)


def usage(recorded: Recorded) -> Mapping[str, Usage]:
    """Return what each process uses, by its path, from the metrics API; empty without that API."""
    try:
        with short_timeouts():
            path = f"{METRICS_API}/namespaces/{quote(recorded.physical_name)}/pods"
            metrics = client_for(recorded).items(path, labelSelector=labels.OURS)
    except SymphonyError:
        # Not every cluster has the metrics API, and not every user may read it.
        return {}
    used = {
        (name, text(container, "name")): mapping(container, "usage")
        for name, pod in labels.by_pod(metrics).items()
        for container in listing(pod, "containers")
    }
    usage_of: dict[str, Usage] = {}
    for path, process in recorded.processes.items():
        if amounts := used.get((process["pod_name"], process["container_name"])):
            cpu, memory = amount(amounts.get("cpu")), amount(amounts.get("memory"))
            usage_of[path] = Usage(
                None if cpu is None else float(cpu), None if memory is None else int(memory)
            )
    return usage_of


def connection_settings(settings: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Return a stack's kubeconfig and context; an encrypted kubeconfig counts as unset."""
    config, context = settings.get("kubernetes:kubeconfig"), settings.get("kubernetes:context")
    return {
        "kubeconfig": kubeconfig.resolve(config, folder) if isinstance(config, str) else "",
        "context": context if isinstance(context, str) else "",
    }


def ensure_same_location(
    recorded: Recorded, name: str, connection: Mapping[str, str] | None = None
) -> Recorded:
    """Return the record with the connection to use.

    Raises:
        UserError: The recorded context now means another cluster, or the user switched contexts.
    """
    return identity.ensure_same_location(recorded, name, connection)


def terminate_early(recorded: Recorded) -> None:
    """Delete all pods at once if symphony made the namespace, whose contents the cluster deletes late."""
    with contextlib.suppress(SymphonyError):
        inventory.end_pods(client_for(recorded), recorded.physical_name, recorded.owner)


def ensure_reachable(recorded: Recorded) -> None:
    """Raise SymphonyError if the API server does not answer, UserError if an object is another owner's."""
    identity.refuse_foreign_objects(identity.ensure_reachable(recorded), recorded)


def deletion_blockers(recorded: Recorded) -> str:
    """Return the objects that block a deletion, in words; empty if unknown."""
    with contextlib.suppress(SymphonyError):
        return inventory.deletion_blockers(client_for(recorded), recorded.physical_name)
    return ""


def delete_owned(owner: str, physical_name: str, recorded: Recorded | None = None) -> int:
    """Delete the objects of an owner in a namespace, and its namespace; return how many processes ran.

    recorded: the earlier record, whose connection is used; by default the user's current context.
    """
    client = client_for(recorded) if recorded is not None else client_of("", "")
    pods = [pod for pod in pods_of(client, physical_name).values() if labels.belongs_to(pod, owner)]
    inventory.end_all(client, physical_name, owner)
    return sum(len(workloads.names_of(pod)) for pod in pods)


def list_everywhere() -> Iterator[tuple[str, Owned | SymphonyError, str]]:
    """Yield (context, experiment or why the context does not answer, command that removes it)."""
    for context in kubeconfig.contexts():
        try:
            with short_timeouts():
                client = client_of("", context)
                namespaces = client.items(path_of("namespaces"), labelSelector=labels.OURS)
                pods = client.items(path_of("pods"), labelSelector=labels.OURS)
        except SymphonyError as error:
            yield context, error, ""
            continue
        paths_of: dict[tuple[str, str], list[str]] = {}
        # Others may have experiments in the same namespace.
        selector_of: dict[tuple[str, str], str] = {}
        for namespace in namespaces:
            paths_of[labels.annotation(namespace, labels.OWNER), text(namespace, "metadata", "name")] = []
        owns_namespace = set(paths_of)
        for pod in pods:
            key = labels.annotation(pod, labels.OWNER), text(pod, "metadata", "namespace")
            paths_of.setdefault(key, []).extend(workloads.names_of(pod))
            selector_of[key] = f"{labels.EXPERIMENT}={text(pod, 'metadata', 'labels', labels.EXPERIMENT)}"
        for (owner, name), paths in paths_of.items():
            is_own = (owner, name) in owns_namespace
            objects = f"namespace {name}" if is_own else f"-n {name} pods -l {selector_of[owner, name]}"
            command = f"kubectl --context {context} delete {objects}"
            yield context, Owned(owner, name, tuple(sorted(paths))), command


def pods_of(client: Client, namespace: str) -> Mapping[str, Values]:
    """Return symphony's pods in a namespace, by the names of their manifests."""
    return labels.by_pod(client.items(path_of("pods", namespace), labelSelector=labels.OURS))


def _statuses(
    recorded: Recorded, unreachable: dict[tuple[str, str], SymphonyError]
) -> list[ProcessStatus] | SymphonyError:
    connection = (recorded.connection.get("kubeconfig", ""), recorded.connection.get("context", ""))
    try:
        if connection in unreachable:
            raise unreachable[connection]
        client = client_for(recorded)
        all_pods = client.items(path_of("pods", recorded.physical_name), labelSelector=labels.OURS)
        pods = labels.by_pod(all_pods)
        job_statuses = _job_statuses(client, recorded, pods)
        events = reasons.pod_troubles(client, recorded.physical_name, pods.values())
        statuses = _status_of(recorded, pods, events, job_statuses)
        statuses = _with_attempts(recorded, statuses, labels.earlier_tries(all_pods))
        statuses = _with_balancers(recorded, statuses, _pending_balancers(client, recorded))
        return [*statuses, *_not_created(client, recorded)]
    except SymphonyError as error:
        if not isinstance(error, Refused):
            # The next experiment in the same cluster need not ask again.
            unreachable[connection] = error
        return error


def _status_of(
    recorded: Recorded,
    pods: Mapping[str, Values],
    events: Mapping[str, str],
    job_statuses: Mapping[str, JobStatus],
) -> list[ProcessStatus]:
    statuses: list[ProcessStatus] = []
    for path, process in recorded.processes.items():
        if job_status := job_statuses.get(process["pod_name"]):
            state, why, since = job_status
            statuses.append(ProcessStatus(path, state, ready=False, why=why, since=since))
        else:
            pod = pods.get(process["pod_name"])
            status = pod_status.status(path, process["container_name"], pod, events)
            trouble = pod_status.supervisor_trouble(process, pods, job_statuses)
            if pod is not None and supervisor.is_gated(pod):
                status = pod_status.gated_status(status, process, trouble)
            elif status.state == "running" and not status.why:
                status = replace(status, why=trouble)
            statuses.append(status)
    return [replace(status, code=recorded.processes[status.path].get("code", "")) for status in statuses]


def _with_attempts(
    recorded: Recorded, statuses: list[ProcessStatus], earlier_tries: Mapping[str, Sequence[Values]]
) -> list[ProcessStatus]:
    """Return the statuses with earlier pods of a Job counted as restarts, and how the last of them ended."""
    counted: list[ProcessStatus] = []
    for status in statuses:
        process = recorded.processes[status.path]
        if process.get("controller") and (tries := earlier_tries.get(str(process["pod_name"]))):
            previous = pod_status.status(status.path, process["container_name"], tries[-1])
            last = previous.why if status.state in ("running", "waiting") else status.last
            status = replace(status, restarts=status.restarts + len(tries), last=last)
        counted.append(status)
    return counted


def _not_created(client: Client, recorded: Recorded) -> list[ProcessStatus]:
    """Return the processes that the state does not have; the cluster is asked only if there are any."""
    if not recorded.not_created:
        return []
    unrecorded = reasons.with_pods(client, recorded.physical_name)
    refusals = admission.refusals(client, recorded.physical_name, recorded.not_created)
    return [
        replace(pod_status.status(path, *unrecorded[path]), why=reasons.UNRECORDED)
        if path in unrecorded
        else ProcessStatus(path, "lost", ready=False, why=f"not created: {refusals[path] or reasons.UNKNOWN}")
        for path in recorded.not_created
    ]


def _pending_balancers(client: Client, recorded: Recorded) -> Collection[str]:
    """Return the load balancers without an address; the cluster is asked only if there are any."""
    if not any(process.get("balanced") for process in recorded.processes.values()):
        return ()
    return reasons.pending_services(client.items(path_of("services", recorded.physical_name)))


def _with_balancers(
    recorded: Recorded, statuses: list[ProcessStatus], waiting: Collection[str]
) -> list[ProcessStatus]:
    """Return the statuses; a running process names its load balancers without an address in `why`."""
    complete: list[ProcessStatus] = []
    for status in statuses:
        names = [name for name in recorded.processes[status.path].get("balanced", ()) if name in waiting]
        why = ", ".join(f"{name}: {reasons.PENDING}" for name in names)
        waits = bool(why) and status.state == "running" and not status.why
        complete.append(replace(status, why=why) if waits else status)
    return complete


def _job_statuses(client: Client, recorded: Recorded, pods: Mapping[str, Values]) -> dict[str, JobStatus]:
    """Return the statuses of missing and ended pods whose Jobs are complete or create another pod."""
    return reasons.job_statuses(client, recorded.physical_name, recorded.processes.values(), pods)


def _processes(resource: Resource) -> dict[str, dict[str, Any]]:
    processes = workloads.processes_of(resource.inputs)
    pod = {
        "pod_name": text(resource.inputs, "metadata", "name"),
        "uid": text(resource.outputs, "metadata", "uid"),
    }
    return {
        path: {**process, **pod, "container_name": path.rpartition("/")[2]}
        for path, process in processes.items()
    }


def _recorded_object(resource: Resource) -> dict[str, str]:
    """Return the path of an object, and its uid."""
    metadata, uid = mapping(resource.inputs, "metadata"), text(resource.outputs, "metadata", "uid")
    path = path_of(_RECORDED_KINDS[resource.type], text(metadata, "namespace"), text(metadata, "name"))
    return {path: uid} if uid else {}


def _is_ours(resource: Resource) -> bool:
    return text(resource.inputs, "metadata", "labels", labels.MANAGED_BY) == labels.SYMPHONY
