"""Reads the status of pods that are gone from their Jobs, which are complete or make another."""

from __future__ import annotations

from collections.abc import Mapping

from symphony.backends.kubernetes.api.client import Client
from symphony.backends.kubernetes.api.fields import Values, text
from symphony.backends.kubernetes.cluster import inventory
from symphony.backends.kubernetes.manifests import controllers
from symphony.backends.kubernetes.status import pod_events, pod_status
from symphony.backends.observe import State

# Its state, why, and since when.
JobStatus = tuple[State, str, float | None]


def job_statuses(
    client: Client, namespace: str, kinds: Mapping[str, str], pods: Mapping[str, Values]
) -> dict[str, JobStatus]:
    """Return the status of the pods that run no more, by their names in the plan.

    kinds: what makes each pod; pods: those that are there.
    """
    missing = {name: kind for name, kind in kinds.items() if _is_replaced(pods.get(name))}
    if not missing:
        return {}
    now = inventory.server_time(client)
    # For a pod that was asked to end and does not, as on a machine that is off, none is made.
    overdue = {name for name in missing if name in pods and inventory.is_overdue(pods[name], now)}
    every = inventory.unfailed(client, namespace)
    ends = {name: controllers.completion(every[name]) for name in missing if name in every}
    making = {name for name, end in ends.items() if not end and name not in overdue}
    # By uid: an earlier Job of the same name may have been refused, too.
    warnings = pod_events.of_jobs(client, namespace) if making else {}
    uids = {name: text(every[name], "metadata", "uid") for name in making}
    return {
        name: ("waiting", warnings.get(uids[name]) or f"its {missing[name]} makes another pod", None)
        if name in making
        else ("completed", "", pod_status.epoch(end.get("lastTransitionTime")))
        for name, end in ends.items()
        if end or name in making
    }


def _is_replaced(pod: Values | None) -> bool:
    """Return whether the Job of a pod makes another: the pod is gone, or will not run again."""
    return pod is None or not pod_status.is_good(pod)
