"""Converts a plan's order, probes and ends to the declaration that a supervisor carries out."""

from collections.abc import Mapping
from typing import Any, cast

from symphony.plan.plan import Plan, PlannedProcess
from symphony.spec.process import Probe
from symphony.supervision import Declaration, Member
from symphony.supervision import Probe as Check


def is_declared(plan: Plan, notify: tuple[str, ...] = ()) -> bool:
    """Return whether the plan needs a supervisor: for an order, equal workers, a probe, an end or notify."""
    is_probed = any(process.readiness_probe or process.liveness_probe for process in plan.processes)
    return bool(plan.is_ordered or is_probed or plan.equal_workers or plan.ends.are_declared or notify)


def declaration(
    plan: Plan,
    stack: str,
    notify: tuple[str, ...] = (),
    tokens: Mapping[str, int] | None = None,
    folder: str = "",
) -> Declaration:
    """Return the declaration for the supervisor.

    Args:
        plan: The plan.
        stack: The name of the stack.
        notify: The command to run at the end of the experiment.
        folder: The folder in which that command runs, if not that of the supervisor.
        tokens: Placeholders for the ports of services, if the ports are not known yet.
    """
    ports = {service.name: service.port for service in plan.services} if tokens is None else tokens
    return Declaration(
        name=stack,
        members={process.path: _member(process, ports) for process in plan.processes},
        equal=tuple(plan.equal_workers),
        primary=plan.ends.primary,
        stop_after=plan.ends.stop_after,
        idle_after=plan.ends.idle_after,
        notify=notify,
        folder=folder if notify else "",
    )


def _member(process: PlannedProcess, ports: Mapping[str, int]) -> Member:
    readiness, liveness = process.readiness_probe, process.liveness_probe
    return Member(
        ports=tuple(ports[service] for service in dict.fromkeys((*process.binds, *process.exposes))),
        readiness=_check(readiness, ports) if readiness else None,
        liveness=_check(liveness, ports) if liveness else None,
        waits_for=process.waits_for,
        termination_delay=process.termination_delay or 0,
    )


def _check(probe: Probe, ports: Mapping[str, int]) -> Check:
    port = probe.port if probe.handler == "http" else probe.tcp
    return Check(
        kind=cast("Any", probe.handler),
        port=ports[port] if isinstance(port, str) else port or 0,
        target=probe.http or probe.log or "",
        argv=probe.exec or (),
        period=probe.period_seconds,
        timeout=probe.timeout_seconds,
        failures=probe.failure_threshold,
        delay=probe.initial_delay_seconds,
    )
