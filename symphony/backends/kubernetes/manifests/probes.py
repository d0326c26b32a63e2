"""The probes of containers. Pure."""

from __future__ import annotations

from typing import Any

from symphony.plan.plan import Plan
from symphony.spec.probe import Port, Probe


def probe(plan: Plan, probe: Probe | None) -> dict[str, Any] | None:
    """Return a declared probe in the fields of Kubernetes."""
    if probe is None:
        return None
    if probe.tcp is not None:
        check: dict[str, Any] = {"tcpSocket": {"port": _number(plan, probe.tcp)}}
    elif probe.http is not None:
        assert probe.port is not None
        check = {"httpGet": {"path": probe.http, "port": _number(plan, probe.port)}}
    else:
        check = {"exec": {"command": list(probe.exec or ())}}
    return {
        **check,
        "periodSeconds": probe.period_seconds,
        "timeoutSeconds": probe.timeout_seconds,
        "failureThreshold": probe.failure_threshold,
        "initialDelaySeconds": probe.initial_delay_seconds,
    }


def _number(plan: Plan, port: Port) -> int:
    return port if isinstance(port, int) else next(each.port for each in plan.services if each.name == port)
