"""Ports for services that name none, from the declaration alone, so that they never move."""

from __future__ import annotations

import hashlib
from collections import defaultdict

from symphony.plan.rules.services import served
from symphony.plan.services import wanted_ports
from symphony.spec.experiment import ExperimentSpec

# Below the range from which a Linux kernel takes the ports of outgoing connections.
FIRST, LAST = 20_000, 29_999


def choose(spec: ExperimentSpec) -> dict[str, int]:
    """service -> port. It depends on the service's name, and on others of its pod only where two meet."""
    wanted = wanted_ports(spec)
    taken: dict[str, set[int]] = defaultdict(set)
    pod_of = {name: servers[0][0].partition("/")[0] for name, servers in served(spec).items()}
    for name, port in wanted.items():
        if port is not None:
            taken[pod_of[name]].add(port)
    chosen: dict[str, int] = {}
    for name in sorted(name for name, port in wanted.items() if port is None):
        chosen[name] = _free(name, taken[pod_of[name]])
        taken[pod_of[name]].add(chosen[name])
    return chosen


def _free(name: str, taken: set[int]) -> int:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    span = LAST - FIRST + 1
    start = int.from_bytes(digest[:4], "big") % span
    offsets = ((start + step) % span for step in range(span))
    return next(port for port in (FIRST + offset for offset in offsets) if port not in taken)
