"""Reads the facts from which the chain of one process is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from symphony.backends.kubernetes.api.client import Client, Refused, path_of
from symphony.backends.kubernetes.api.fields import Values, listing, mapping, text
from symphony.backends.kubernetes.cluster import inventory
from symphony.backends.kubernetes.diagnosis import chain
from symphony.backends.kubernetes.logs import reader
from symphony.backends.kubernetes.manifests import controllers, labels
from symphony.backends.kubernetes.status import admission, job_pods
from symphony.backends.observe import Link, Recorded
from symphony.errors import SymphonyError

_LINES = 5


def read_chain(client: Client, recorded: Recorded, path: str, name: str) -> list[Link]:
    """Return the links of one process; a cluster that does not answer is the broken link."""
    facts = recorded.processes.get(path)
    try:
        if facts is None:
            return [_never_made(client, recorded.launched_as, name)]
        return list(chain.chain(_read(client, recorded.launched_as, path, facts), name))
    except SymphonyError as error:
        planned = [Link("planned", chain.planned(facts))] if facts is not None else []
        return [*planned, Link("seen", f"no: {error.what}", broken=True, remedy=error.remedy)]


def _read(client: Client, namespace: str, path: str, facts: Mapping[str, Any]) -> chain.Facts:
    planned = str(facts["pod_name"])
    pod = inventory.pod_of(client, namespace, planned)
    keeper = str(mapping(facts, "controller").get("kind") or "")
    kinds = {planned: keeper} if keeper else {}
    name = text(pod, "metadata", "name") or planned
    uid = text(pod, "metadata", "uid") or str(facts.get("uid") or "")
    kind = keeper if pod is None and keeper else controllers.POD

    def words(container: str, previous: bool) -> tuple[str, ...]:
        place = reader.Place(path, name, container)
        return tuple(reader.last_lines(client, namespace, place, _LINES, previous=previous))

    return chain.Facts(
        path=path,
        recorded=facts,
        pod=pod,
        events=_events(client, namespace, kind, name, uid),
        services=_services(client, namespace, planned),
        words=words,
        room=lambda: _room(client, pod or {}),
        keeper=keeper,
        job_status=job_pods.job_statuses(client, namespace, kinds, {planned: pod} if pod else {}).get(
            planned
        ),
    )


def _events(client: Client, namespace: str, kind: str, name: str, uid: str) -> list[Values]:
    """Return the events of the pod, or of the Job that should make it; not of an older one of its name."""
    selector = f"involvedObject.kind={kind},involvedObject.name={name}"
    try:
        result = client.get(path_of("events", namespace), fieldSelector=selector, limit=500)
    except Refused:
        return []
    every = [each for each in listing(result, "items") if text(each, "involvedObject", "uid") in ("", uid)]
    return sorted(every, key=lambda each: text(each, "lastTimestamp") or text(each, "eventTime"))


def _services(client: Client, namespace: str, pod: str) -> list[Values]:
    every = client.items(path_of("services", namespace), labelSelector=labels.OURS)
    return [each for each in every if text(each, "spec", "selector", labels.POD) == pod]


def _room(client: Client, pod: Values) -> str:
    """Return what the pod needs to be scheduled; general advice where the user may not see nodes."""
    # Only a pod that finds no node needs it.
    from symphony.backends.kubernetes.diagnosis import scheduling

    try:
        nodes = client.items("/api/v1/nodes")
        pods = client.items("/api/v1/pods", fieldSelector="status.phase!=Succeeded,status.phase!=Failed")
    except Refused:
        return scheduling.GENERAL
    return scheduling.wanted(pod, nodes, pods)


def _never_made(client: Client, namespace: str, name: str) -> Link:
    """Return the link of a process that is declared and not in the state."""
    rules = admission.rules(client, namespace)
    remedy = f"`symphony up {name}` tries again and says why not"
    if rules:
        remedy = f"Ask for less, have the rules of {namespace} changed, or end something there; {remedy}"
    return Link("created", f"no: {admission.UNKNOWN}", None, True, tuple(rules), remedy)
