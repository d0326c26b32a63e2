"""Says of a live object whether it is what the engine waits for, or what is missing; pure, for `waiting`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from toolchain.plugin_kubernetes.naming import annotation
from toolchain.plugins.failures import Failure

WAIT_FOR = "pulumi.com/waitFor"
SKIP = "pulumi.com/skipAwait"
TIMEOUT = "pulumi.com/timeoutSeconds"

# None when ready, else what is missing.
Check = Callable[[dict[str, Any]], str | None]


class Hopeless(Exception):
    """The object will never become ready."""


def check_for(inputs: dict[str, Any]) -> Check | None:
    """What to wait for after a write; None when nothing."""
    if annotation(inputs, SKIP).lower() == "true":
        return None
    wanted = annotation(inputs, WAIT_FOR)
    if wanted:
        return _all([_condition(each) for each in _listed(wanted)])
    return _BY_KIND.get(f"{inputs.get('apiVersion')} {inputs.get('kind')}")


def needs_endpoints(inputs: dict[str, Any], live: dict[str, Any]) -> bool:
    """Services that select pods and have an address of their own are ready when a pod serves them."""
    if f"{live.get('apiVersion')} {live.get('kind')}" != "v1 Service" or annotation(inputs, WAIT_FOR):
        return False
    spec = live.get("spec", {})
    return (
        bool(spec.get("selector")) and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName"
    )


def _listed(wanted: str) -> list[str]:
    if not wanted.lstrip().startswith("["):
        return [wanted]
    try:
        return json.loads(wanted)
    except ValueError as error:
        raise Failure(f"{WAIT_FOR} is no list: {wanted}") from error


def _all(checks: list[Check]) -> Check:
    def check(live: dict[str, Any]) -> str | None:
        missing = [text for each in checks if (text := each(live)) is not None]
        return "; ".join(missing) or None

    return check


def _condition(wanted: str) -> Check:
    """`condition=Type[=Status]` or `jsonpath={.path}[=value]`."""
    if wanted.startswith("condition="):
        name, _, status = wanted.removeprefix("condition=").partition("=")
        return lambda live: (
            None if _has(live, name, status or "True") else f"condition {name} is not {status or 'True'}"
        )
    match = re.fullmatch(r"jsonpath=\{\.?([^}]+)\}(?:=(.*))?", wanted, re.DOTALL)
    if not match:
        raise Failure(f"{WAIT_FOR} understands condition=... and jsonpath={{...}}, not {wanted}")
    steps, value = _steps(match[1]), match[2]

    def check(live: dict[str, Any]) -> str | None:
        values = _values(live, steps)
        good = bool(values) if value is None else any(_text(each) == value for each in values)
        return None if good else f"{wanted} does not hold yet"

    return check


def _steps(path: str) -> list[str]:
    return [step for step in re.split(r"\.|\[|\]", path) if step]


def _values(live: Any, steps: list[str]) -> list[Any]:
    result = [live]
    for step in steps:
        nearer: list[Any] = []
        for each in result:
            if isinstance(each, list) and step == "*":
                nearer += each
            elif isinstance(each, list) and step.isdecimal() and int(step) < len(each):
                nearer.append(each[int(step)])
            elif isinstance(each, dict) and step in each:
                nearer.append(each[step])
        result = nearer
    return result


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _has(live: dict[str, Any], name: str, status: str) -> bool:
    conditions = live.get("status", {}).get("conditions") or []
    return any(each.get("type") == name and each.get("status") == status for each in conditions)


def _pod(live: dict[str, Any]) -> str | None:
    status = live.get("status", {})
    if _has(live, "Ready", "True") or status.get("phase") == "Succeeded":
        return None
    waiting = [
        each["state"]["waiting"]
        for each in status.get("containerStatuses") or []
        if "waiting" in each["state"]
    ]
    messages = [
        each.get("message", "") for each in status.get("conditions") or [] if each.get("status") == "False"
    ]
    reasons = [f"{each.get('reason')}: {each.get('message', '')}" for each in waiting] or [
        text for text in messages if text
    ]
    return f"pod is {status.get('phase', 'not scheduled')}; {'; '.join(reasons)}"


def _service(live: dict[str, Any]) -> str | None:
    if live.get("spec", {}).get("type") == "LoadBalancer":
        return (
            None
            if live.get("status", {}).get("loadBalancer", {}).get("ingress")
            else "no load balancer address yet"
        )
    return None


def _replicated(live: dict[str, Any]) -> str | None:
    status, wanted = live.get("status", {}), live.get("spec", {}).get("replicas", 1)
    if status.get("observedGeneration", 0) < live["metadata"].get("generation", 0):
        return "the controller has not seen the change"
    updated, ready = status.get("updatedReplicas", 0), status.get("readyReplicas", 0)
    return None if updated >= wanted and ready >= wanted else f"{ready} of {wanted} replicas ready"


def _job(live: dict[str, Any]) -> str | None:
    if _has(live, "Failed", "True"):
        raise Hopeless("the job failed")
    return None if _has(live, "Complete", "True") else "the job has not finished"


def _claim(live: dict[str, Any]) -> str | None:
    return None if live.get("status", {}).get("phase") == "Bound" else "the claim is not bound"


_BY_KIND: dict[str, Check] = {
    "v1 Pod": _pod,
    "v1 Service": _service,
    "v1 PersistentVolumeClaim": _claim,
    "apps/v1 Deployment": _replicated,
    "apps/v1 StatefulSet": _replicated,
    "batch/v1 Job": _job,
}
