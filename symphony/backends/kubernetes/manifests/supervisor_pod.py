"""Renders the supervisor of an experiment: its Job, service account and Role."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from symphony import paths
from symphony.backends.kubernetes import supervisor
from symphony.backends.kubernetes.manifests import labels, pod, workloads
from symphony.backends.kubernetes.settings import Settings
from symphony.plan.plan import Plan, PlannedProcess
from symphony.spec.process import Probe
from symphony.supervision import Wait

Manifest = dict[str, Any]
_RBAC = "rbac.authorization.k8s.io"
_SOURCE = Path(supervisor.__file__).read_text(encoding="utf-8")
_RETRIES = 1_000_000


def is_needed(plan: Plan, settings: Settings) -> bool:
    """Return whether it is needed: for an order, equal workers, a probe by log, an end, or notify."""
    is_ordered = plan.is_ordered or bool(pod.equal_pods(plan))
    return is_ordered or plan.ends.are_declared or bool(_log_probes(plan) or settings.notify)


def waits_of(plan: Plan) -> dict[str, list[Wait]]:
    """Return the waits of each pod, by its name in the plan: the waits of all its processes."""
    waits_by_pod: dict[str, dict[Wait, None]] = {}
    for process in plan.processes:
        if process.waits_for:
            waits_by_pod.setdefault(pod.pod_of(process), {}).update(dict.fromkeys(process.waits_for))
    return {name: list(waits) for name, waits in waits_by_pod.items()}


def manifests(plan: Plan, settings: Settings, owner: str, attempt: str) -> list[Manifest]:
    """Return the service account, the Role, the RoleBinding and the Job; empty if none is needed."""
    if not is_needed(plan, settings):
        return []
    name = settings.object_name(labels.SUPERVISOR)
    experiment = settings.shared_as or plan.physical_name

    def metadata(more: Mapping[str, str], notes: Mapping[str, str]) -> dict[str, Any]:
        return {
            "name": name,
            "namespace": plan.physical_name,
            "labels": {**labels.of_object(experiment), **more},
            "annotations": {labels.OWNER: owner, **notes},
        }

    def rights(kind: str, **more: Any) -> Manifest:
        api = "v1" if kind == "ServiceAccount" else f"{_RBAC}/v1"
        return {"apiVersion": api, "kind": kind, "metadata": metadata({}, labels.FORCE), **more}

    account = {"kind": "ServiceAccount", "name": name, "namespace": plan.physical_name}
    role = {"apiGroup": _RBAC, "kind": "Role", "name": name}
    own = {labels.POD: name, supervisor.SUPERVISOR: "true"}
    spec = _job_spec(plan, settings, experiment, {**labels.of_object(experiment), **own}, name, owner)
    notes = {**labels.EXISTS, labels.DIGEST: labels.digest(spec), labels.ATTEMPT: attempt}
    job = {"apiVersion": "batch/v1", "kind": workloads.JOB, "metadata": metadata(own, notes), "spec": spec}
    return [
        rights("ServiceAccount"),
        rights("Role", rules=_rules(plan, settings)),
        rights("RoleBinding", roleRef=role, subjects=[account]),
        job,
    ]


def _rules(plan: Plan, settings: Settings) -> list[dict[str, Any]]:
    """Return the rules of the Role: read the namespace's pods, change the experiment's pods."""
    planned = list(pod.pods_of(plan))
    kinds = {pod.controller(planned_pod, settings) for planned_pod in planned}
    # Pods of a Job have names that the cluster chooses, so rights cannot be limited by name.
    names = sorted(settings.object_name(planned_pod.name) for planned_pod in planned)
    limit = {"resourceNames": names} if kinds == {workloads.POD} else {}

    def rule(verbs: list[str], resource: str, group: str = "") -> dict[str, Any]:
        return {"apiGroups": [group], "resources": [resource], "verbs": verbs}

    is_timed = plan.ends.idle_after is not None
    reads_logs = is_timed or bool(_log_probes(plan) or settings.notify)
    restarting = sorted(settings.object_name(own.name) for own in planned if own.restarts_with_others)
    return [
        rule(["get", "list", "watch"], "pods"),
        {**rule(["patch"], "pods"), **limit},
        *([rule(["list"], "jobs", "batch")] if workloads.JOB in kinds else []),
        *([{**rule(["patch"], "jobs", "batch"), "resourceNames": restarting}] if restarting else []),
        *([{**rule(["get"], "pods/log"), **limit}] if reads_logs else []),
        *([rule(["list"], "pods", "metrics.k8s.io")] if is_timed else []),
    ]


def _log_probes(plan: Plan) -> list[tuple[PlannedProcess, Probe]]:
    probes = ((process, process.readiness_probe) for process in plan.processes)
    return [(process, probe) for process, probe in probes if probe is not None and probe.log is not None]


def _job_spec(
    plan: Plan, settings: Settings, experiment: str, own: Mapping[str, str], name: str, owner: str
) -> dict[str, Any]:
    text = json.dumps(orders(plan, settings, experiment, paths.stack_of(owner)))
    # A variable may have 128 KiB, and base64 has no `$`, which Kubernetes would expand.
    packed = base64.b64encode(zlib.compress(text.encode())).decode()
    container = {
        "name": "supervisor",
        "image": settings.supervisor_image,
        "command": ["python3", "-uc", _SOURCE],
        "env": [{"name": supervisor.ORDERS, "value": packed}],
        "resources": {
            "requests": {"cpu": "10m", "memory": "64Mi"},
            "limits": {"cpu": "500m", "memory": "512Mi"},
        },
        "securityContext": {**pod.RESTRICTED, "runAsUser": pod.NOBODY},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    pod_spec: dict[str, Any] = {
        "restartPolicy": "OnFailure",
        "serviceAccountName": name,
        "enableServiceLinks": False,
        # The supervisor has no state to save.
        "terminationGracePeriodSeconds": 1,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    if settings.pull_secrets:
        pod_spec["imagePullSecrets"] = [{"name": secret} for secret in settings.pull_secrets]
    return {
        "manualSelector": True,
        "selector": {"matchLabels": {labels.POD: name}},
        "backoffLimit": _RETRIES,
        "template": {"metadata": {"labels": dict(own)}, "spec": pod_spec},
    }


def orders(plan: Plan, settings: Settings, experiment: str, stack: str) -> dict[str, Any]:
    """Return the supervisor's orders, with the names of pods and containers in the cluster."""
    waits = waits_of(plan)
    distinct = list(dict.fromkeys(wait for pod_waits in waits.values() for wait in pod_waits))
    indices = {wait: index for index, wait in enumerate(distinct)}
    delays: dict[str, float] = {}
    for process in plan.processes:
        if process.termination_delay:
            name = settings.object_name(pod.pod_of(process))
            delays[name] = max(delays.get(name, 0), process.termination_delay)
    return {
        "experiment": experiment,
        "waits": [
            {
                **_container(plan, settings, wait.path),
                "condition": wait.condition,
                "timeout": wait.timeout,
                "restart_with": wait.restart_with,
                # A process that serves a port is no longer ready after its end.
                "serves": bool(plan.process(wait.path).binds or plan.process(wait.path).exposes),
            }
            for wait in distinct
        ],
        "logs": [
            {**_container(plan, settings, process.path), "pattern": probe.log, "period": probe.period_seconds}
            for process, probe in _log_probes(plan)
        ],
        "pods": {
            settings.object_name(name): [indices[wait] for wait in pod_waits]
            for name, pod_waits in waits.items()
        },
        "equal": [[settings.object_name(name) for name in names] for names in pod.equal_pods(plan)],
        "primary": [_container(plan, settings, path) for path in plan.ends.primary],
        "stop_after": plan.ends.stop_after,
        "idle_after": plan.ends.idle_after,
        "delays": delays,
        "notify": list(settings.notify),
        "name": stack,
        "total": len(list(pod.pods_of(plan))),
    }


def _container(plan: Plan, settings: Settings, path: str) -> dict[str, str]:
    process = plan.process(path)
    return {"path": path, "pod": settings.object_name(pod.pod_of(process)), "container": process.name}
