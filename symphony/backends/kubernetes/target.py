"""The Kubernetes backend's target: its capabilities, ports and problems of an experiment. Pure."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping

from symphony.backends.kubernetes.backend import BACKEND
from symphony.backends.kubernetes.settings import Settings
from symphony.backends.kubernetes.validation import declaration
from symphony.placement.pool import Pool
from symphony.placement.prices import LIST_PRICES, Prices
from symphony.plan.problems import Problem
from symphony.plan.rules.services import served
from symphony.plan.services import fixed_ports
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec

# Below the range of ports that Linux uses for outgoing connections.
_FIRST, _LAST = 20_000, 29_999


def target(
    spec: ExperimentSpec,
    settings: Settings,
    namespace: str,
    *,
    secrets: Mapping[str, int] | None = None,
    unreadable: Mapping[str, str] | None = None,
    conflict: tuple[str, str] | None = None,
    pools: tuple[Pool, ...] = (),
    prices: Prices = LIST_PRICES,
) -> Target:
    """Return the target to plan for.

    Args:
        spec: The declaration.
        settings: The settings of the stack.
        namespace: The namespace of the experiment.
        secrets: The bytes of each secret and config file, for Kubernetes' limit.
        unreadable: Why files cannot be read.
        conflict: Why the experiment may not use the namespace, and the remedy.
        pools: The pools of the cluster, from its stack or its nodes.
        prices: The prices of their machines.
    """
    problems = list(declaration.check(spec, settings, namespace, secrets or {}))
    if conflict:
        why, remedy = conflict
        problems.append(Problem(f"the namespace {namespace} {why}", remedy, (spec.where,)))
    return Target(
        backend="kubernetes",
        physical_name=namespace,
        starts="image",
        supports=BACKEND.settings,
        one_host=False,
        host_of=f"{settings.named('{service}')}.{namespace}.svc",
        bind_host="0.0.0.0",
        labels=True,
        ports=choose_ports(spec),
        unreadable=unreadable or {},
        defaults={"image": settings.image},
        problems=tuple(problems),
        pools=pools,
        prices=prices,
    )


def choose_ports(spec: ExperimentSpec) -> dict[str, int]:
    """Return service -> port for services that set no port.

    A port depends only on the service's name, except for collisions within a pod, so it rarely changes.
    """
    wanted = fixed_ports(spec)
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
    span = _LAST - _FIRST + 1
    start = int.from_bytes(digest[:4], "big") % span
    offsets = ((start + step) % span for step in range(span))
    return next(port for port in (_FIRST + offset for offset in offsets) if port not in taken)
