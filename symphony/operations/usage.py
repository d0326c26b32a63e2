"""Measures the CPU, memory and GPUs that the processes of an experiment use."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from symphony.backends.observe import MeasuringObserver, ProcessStatus, Usage
from symphony.operations import stacks

# Seconds between two measurements of CPU use.
_PERIOD = 0.25
_UNITS = "KMGTP"


def usage_of(
    stack: stacks.Stack, statuses: Iterable[ProcessStatus], before: Mapping[str, Usage] | None = None
) -> dict[str, Usage]:
    """Return the usage of each process, by path.

    CPU use is measured since `before`, an earlier result; without it, some backends take two measurements.
    """
    recorded, observer = stack.recorded, stack.observer() if stack.recorded else None
    now: Mapping[str, Usage] = {}
    if recorded is not None and isinstance(observer, MeasuringObserver):
        now = observer.usage(recorded)
        if before is None and any(used.cpu is None and used.cpu_time is not None for used in now.values()):
            time.sleep(_PERIOD)
            before, now = now, observer.usage(recorded)
    host = recorded.host if recorded is not None else ""
    return {
        status.path: _complete(
            now.get(status.path, Usage()), (before or {}).get(status.path), status.node or host
        )
        for status in statuses
    }


def _complete(now: Usage, before: Usage | None, node: str) -> Usage:
    """Return a usage with the machine, and the CPU use since an earlier one."""
    cpu = now.cpu
    if now.cpu_time is not None and before and before.cpu_time is not None and now.moment > before.moment:
        # The CPU time of a process falls when a child ends without being waited for.
        cpu = max(0.0, now.cpu_time - before.cpu_time) / (now.moment - before.moment)
    return replace(now, cpu=cpu, node=node)


def columns(used: Usage) -> dict[str, Any]:
    """Return the columns that `process -o wide` adds to those of `process`."""
    cpu = None if used.cpu is None else round(used.cpu, 3)
    return {"cpu": cpu, "memory": used.memory, "gpu": used.gpu, "node": used.node}


def percent(cpu: float | None) -> str:
    """Return the CPU use as `98%` of a core; `-` if it is not measured."""
    return "-" if cpu is None else f"{cpu * 100:.0f}%"


def size(memory: float | None) -> str:
    """Return a number of bytes as `312M` or `2.1G`; `-` if it is not measured."""
    if memory is None:
        return "-"
    unit = ""
    for unit in ("", *_UNITS):  # noqa: B007
        if memory < 1000:
            break
        memory /= 1024
    return f"{memory:.1f}{unit}" if unit and memory < 9.95 else f"{memory:.0f}{unit}"
