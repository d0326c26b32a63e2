"""Renders the probes of containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from symphony.backends.kubernetes.api.fields import Values, texts

if TYPE_CHECKING:
    # Reading commands do not load the plan.
    from symphony.plan.plan import Plan, PlannedProcess
    from symphony.spec.process import Port, Probe

# Reads the kernel's tables: a connection would disturb a server that waits for its peers, and a tcpSocket
# probe takes a single port.
_LISTENS = """
for port; do
grep -qs "$(printf ':%04X [0-9A-F:]* 0A ' "$port")" /proc/net/tcp /proc/net/tcp6 && continue
echo "port $port: not listening yet"; exit 1
done
""".strip()
_NAME = "listens"
_EVERY, _TIMEOUT, _FOR_EVER = 2, 5, 2**31 - 1


def listens(plan: Plan, process: PlannedProcess) -> dict[str, Any] | None:
    """Return the default probe of a process: it must listen on all ports that it binds.

    A startup probe checks only until then. It never fails for good: a process that is not ready must not be
    restarted.
    """
    yml = process.container_yml
    if process.readiness_probe is not None or "readinessProbe" in yml or "startupProbe" in yml:
        return None
    ports = [service.port for service in plan.services if service.name in process.binds]
    if not ports:
        return None
    return {
        "exec": {"command": ["sh", "-c", _LISTENS, _NAME, *map(str, ports)]},
        "periodSeconds": _EVERY,
        "timeoutSeconds": _TIMEOUT,
        "failureThreshold": _FOR_EVER,
    }


def has_default_probe(container: Values) -> bool:
    """Return whether a container has the default probe."""
    return _NAME in texts(container, "startupProbe", "exec", "command")


def why_not_ready(container: Values, pattern: str = "") -> str:
    """Return why a running container is not ready: `port 21602: not listening yet`.

    pattern: the pattern of its probe by log, if any.
    """
    if pattern:
        return f"no line of the output matches {pattern}"
    command = texts(container, "startupProbe", "exec", "command")
    if _NAME in command:
        ports = command[command.index(_NAME) + 1 :]
        what = "not all listening yet" if len(ports) > 1 else "not listening yet"
        return f"port{'s' if len(ports) > 1 else ''} {', '.join(ports)}: {what}"
    return "the readiness probe fails" if "readinessProbe" in container else "not ready yet"


def probe(plan: Plan, probe: Probe | None) -> dict[str, Any] | None:
    """Return a declared probe in Kubernetes' fields."""
    if probe is None or probe.log is not None:
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
    if isinstance(port, int):
        return port
    return next(service.port for service in plan.services if service.name == port)
