"""Reads why pods are missing or do not start, and the external addresses of services."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from symphony.backends.kubernetes import inventory, pod_status, supervisor
from symphony.backends.kubernetes.api.client import Client, Refused, path_of
from symphony.backends.kubernetes.api.fields import Values, listing, mapping, text
from symphony.backends.kubernetes.manifests import labels, workloads
from symphony.backends.observe import State

LOAD_BALANCER = "LoadBalancer"
PENDING = "its LoadBalancer has no address yet"
UNKNOWN = "the last `up` stopped before creating it, or the cluster refused it"
UNRECORDED = "the connection broke off before the last `up` recorded it; the next `up` records it"
_PAGE = 500
# The beginning of the message about a refused pod of a Job; the pod's name in it changes with each try.
_REFUSED = re.compile(
    r'(?:\(combined from similar events\): )?Error creating: (?:pods "[^"]*" is forbidden: )?'
)

# (state, reason, since)
JobStatus = tuple[State, str, float | None]


def pod_troubles(client: Client, namespace: str, pods: Iterable[Values]) -> dict[str, str]:
    """Return why the containers of pods do not start, by the pods' names, where only events show that."""
    # By uid: an older pod of the same name may have left events.
    events: dict[str, list[Values]] = {
        text(pod, "metadata", "uid"): [] for pod in pods if pod_status.needs_events(pod)
    }
    if not events:
        return {}
    for event_type in ("Warning", "Normal"):
        for event in events_of(client, namespace, f"involvedObject.kind={workloads.POD},type={event_type}"):
            if (uid := text(event, "involvedObject", "uid")) in events:
                events[uid].append(event)
        # The many events of type Normal are read only if there is trouble.
        if not any(map(pod_status.trouble, events.values())):
            return {}
    troubles = filter(None, map(pod_status.trouble, events.values()))
    return {text(event, "involvedObject", "name"): _reason_of(event) for event in troubles}


def events_of(client: Client, namespace: str, selector: str) -> list[Values]:
    """Return all events that a field selector selects; empty if the user may not list events."""
    query: dict[str, str | int] = {"fieldSelector": selector, "limit": _PAGE}
    events: list[Values] = []
    # If the listing expires between two pages, the pages so far are returned.
    with contextlib.suppress(Refused):
        while True:
            page = client.get(path_of("events", namespace), **query)
            events += listing(page, "items")
            query["continue"] = text(page, "metadata", "continue")
            if not query["continue"]:
                break
    return events


def _reason_of(event: Values) -> str:
    return f"{text(event, 'reason')}: {text(event, 'message')}"


def refusal(event: Values) -> str:
    """Return why the cluster refused a pod of a Job; empty if the event has another reason."""
    return _REFUSED.sub("", text(event, "message")) if text(event, "reason") == "FailedCreate" else ""


def job_statuses(
    client: Client, namespace: str, processes: Iterable[Mapping[str, Any]], pods: Mapping[str, Values]
) -> dict[str, JobStatus]:
    """Return the status of missing and ended pods whose Jobs are complete or create another pod.

    Args:
        client: The cluster.
        namespace: The namespace of the experiment.
        processes: The inputs and outputs of the processes in the state; their supervisor has a Job too.
        pods: The existing pods, by the names of their manifests.
    """
    kinds: dict[str, str] = {}
    for process in processes:
        if process.get("controller"):
            kinds[process["pod_name"]] = process["controller"]["kind"]
        if process.get("supervisor"):
            kinds[process["supervisor"]] = workloads.JOB
    missing = {
        name: kind
        for name, kind in kinds.items()
        if name not in pods or not (pod_status.is_good(pods[name]) or supervisor.is_gated(pods[name]))
    }
    if not missing:
        return {}
    now = inventory.server_time(client)
    # A Job creates no other pod while a deleted pod does not end, for instance on a dead machine.
    overdue = {name for name in missing if name in pods and inventory.is_overdue(pods[name], now)}
    jobs = inventory.jobs_not_failed(client, namespace)
    ends = {name: workloads.completion(jobs[name]) for name in missing if name in jobs}
    making = {name for name, end in ends.items() if not end and name not in overdue}
    # By uid: an earlier Job of the same name may have left events.
    warnings = _job_warnings(client, namespace) if making else {}
    uids = {name: text(jobs[name], "metadata", "uid") for name in making}
    return {
        name: ("waiting", warnings.get(uids[name]) or f"its {missing[name]} creates another pod", None)
        if name in making
        else ("completed", "", pod_status.epoch(end.get("lastTransitionTime")))
        for name, end in ends.items()
        if end or name in making
    }


def _job_warnings(client: Client, namespace: str) -> dict[str, str]:
    """Return the newest warning about each Job, by the Job's uid."""
    events = events_of(client, namespace, f"involvedObject.kind={workloads.JOB},type=Warning")
    events.sort(key=lambda event: pod_status.event_time(event) or 0.0)
    return {
        text(event, "involvedObject", "uid"): f"{pod_status.NOT_CREATED}{refused}"
        if (refused := refusal(event))
        else _reason_of(event)
        for event in events
    }


def with_pods(client: Client, namespace: str) -> dict[str, tuple[str, Values]]:
    """Return path -> container and pod, for each process that has a pod, also one that no state records."""
    pods = labels.by_pod(client.items(path_of("pods", namespace), labelSelector=labels.OURS))
    places = (place for name, pod in pods.items() for place in supervisor.places_of(name, pod))
    return {place["path"]: (place["container"], pods[place["pod"]]) for place in places}


def load_balanced_pod(inputs: Values) -> tuple[str, str] | None:
    """Return (pod, name) of a recorded Service with a load balancer; None for other Services."""
    if text(inputs, "spec", "type") != LOAD_BALANCER:
        return None
    return text(inputs, "spec", "selector", labels.POD), text(inputs, "metadata", "name")


def pending_services(services: Iterable[Values]) -> set[str]:
    """Return the services that wait for the address of their load balancer."""
    return {
        text(service, "metadata", "name")
        for service in services
        if text(service, "spec", "type") == LOAD_BALANCER and not addresses(service)
    }


def service_summary(service: Values, node: str) -> str:
    """Return `web: NodePort 31234, on 10.0.0.7:31234 and every other node`; empty for a headless Service."""
    name, kind = text(service, "metadata", "name"), text(service, "spec", "type")
    ports = listing(service, "spec", "ports")
    if kind == LOAD_BALANCER:
        where = ", ".join(f"{host}:{text(port, 'port')}" for host in addresses(service) for port in ports)
        return f"{name}: {where}" if where else f"{name}: {PENDING}"
    if kind == "NodePort":
        node_ports = ", ".join(text(port, "nodePort") for port in ports)
        return f"{name}: NodePort {node_ports}, on {node}:{node_ports} and every other node"
    if kind == "ClusterIP" and text(service, "spec", "clusterIP") not in ("", "None"):
        inner_ports = ", ".join(text(port, "port") for port in ports)
        return f"{name}: inside the cluster only, {text(service, 'spec', 'clusterIP')}:{inner_ports}"
    return ""


def addresses(service: Values) -> list[str]:
    """Return the external addresses of a load balancer; empty until the cloud assigns them."""
    ingresses = listing(mapping(service, "status", "loadBalancer"), "ingress")
    return [host for ingress in ingresses if (host := text(ingress, "ip") or text(ingress, "hostname"))]
