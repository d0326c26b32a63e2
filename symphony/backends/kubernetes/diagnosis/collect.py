"""Asks the cluster for what the chain of one process is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from symphony.backends.kubernetes.api.client import Client, Refused, path_of
from symphony.backends.kubernetes.api.fields import Values, listing, mapping, text
from symphony.backends.kubernetes.cluster import inventory
from symphony.backends.kubernetes.diagnosis import chain
from symphony.backends.kubernetes.logs import reader
from symphony.backends.kubernetes.manifests import controllers, labels
from symphony.backends.kubernetes.status import job_pods
from symphony.backends.observe import Link, Recorded
from symphony.errors import SymphonyError

_LINES = 5


def read_chain(client: Client, recorded: Recorded, path: str, name: str) -> list[Link]:
    """The links of one process as the cluster is now; one that does not answer is the broken link."""
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
    """What the cluster said of the pod, or of what should make it; not of an older one of its name."""
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
    """What it would take; who may not look at nodes is told in general."""
    # Only a pod that finds no node needs it.
    from symphony.backends.kubernetes.diagnosis import scheduling

    try:
        nodes = client.items("/api/v1/nodes")
        pods = client.items("/api/v1/pods", fieldSelector="status.phase!=Succeeded,status.phase!=Failed")
    except Refused:
        return scheduling.GENERAL
    return scheduling.wanted(pod, nodes, pods)


def _never_made(client: Client, namespace: str, name: str) -> Link:
    """A process that is declared and not in the state, and what keeps it out, as far as one can see."""
    remedy = f"`symphony up {name}` tries again and says why not"
    try:
        quotas = client.items(path_of("resourcequotas", namespace))
    except Refused:
        quotas = []
    used_up = [
        f"the quota {text(quota, 'metadata', 'name')} is used up: {kind} {used} of {hard}"
        for quota in quotas
        for kind, hard in mapping(quota, "status", "hard").items()
        if (used := mapping(quota, "status", "used").get(kind)) == hard
    ]
    if used_up:
        remedy = f"Have the quota raised, or end something in {namespace}; then `symphony up {name}`"
    return Link("created", "no: the last `up` did not make it", None, True, tuple(used_up), remedy)
