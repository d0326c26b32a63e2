"""Processor time, memory and GPUs that the processes of an experiment use."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from symphony.backends.observe import MeasuringObserver, ProcessStatus, Usage
from symphony.operations import stacks

# Seconds between two looks that tell how busy a process is.
_BETWEEN = 0.25
_UNITS = "KMGTP"


def usage(stack: stacks.Stack, before: Mapping[str, Usage] | None = None) -> Mapping[str, Usage]:
    """Return path -> what the process uses; empty where its backend measures nothing.

    Args:
        stack: The experiment.
        before: An earlier look; without it, the function takes two looks.
    """
    observer = stack.observer() if stack.recorded else None
    if stack.recorded is None or not isinstance(observer, MeasuringObserver):
        return {}
    now = observer.usage(stack.recorded)
    if before is None and any(each.cpu is None and each.cpu_time is not None for each in now.values()):
        time.sleep(_BETWEEN)
        before, now = now, observer.usage(stack.recorded)
    return {path: _with_cpu(each, (before or {}).get(path)) for path, each in now.items()}


def _with_cpu(now: Usage, before: Usage | None) -> Usage:
    if now.cpu_time is None or before is None or before.cpu_time is None or now.moment <= before.moment:
        return now
    # The last moments of a child that was not reaped are lost.
    used = max(0.0, now.cpu_time - before.cpu_time)
    return replace(now, cpu=used / (now.moment - before.moment))


def usage_of(stack: stacks.Stack, statuses: Iterable[ProcessStatus]) -> dict[str, Usage]:
    """Return path -> what the process uses, with its machine, for the processes of these statuses."""
    used, host = usage(stack), stack.recorded.host if stack.recorded else ""
    return {
        status.path: replace(used.get(status.path, Usage()), node=status.node or host) for status in statuses
    }


def columns(used: Usage) -> dict[str, Any]:
    """Return the facts of `process -o wide` beside those of `process`."""
    cpu = None if used.cpu is None else round(used.cpu, 3)
    return {"cpu": cpu, "memory": used.memory, "gpu": used.gpu, "node": used.node}


def cores(cpu: float | None) -> str:
    """Return the use of cores: `98%` of one, `-` where it is not measured."""
    return "-" if cpu is None else f"{cpu * 100:.0f}%"


def size(memory: float | None) -> str:
    """Return bytes: `312M`, `2.1G`."""
    if memory is None:
        return "-"
    unit = ""
    for unit in ("", *_UNITS):  # noqa: B007
        if memory < 1000:
            break
        memory /= 1024
    return f"{memory:.1f}{unit}" if unit and memory < 9.95 else f"{memory:.0f}{unit}"
