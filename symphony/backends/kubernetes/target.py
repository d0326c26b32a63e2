"""What Kubernetes can do for an experiment and what it would refuse, as the value to plan for.

Pure: what was looked up on this machine and in the cluster is handed in.
"""

from __future__ import annotations

from collections.abc import Mapping

from symphony.backends.kubernetes.backend import BACKEND
from symphony.backends.kubernetes.manifests import ports
from symphony.backends.kubernetes.settings import Settings
from symphony.backends.kubernetes.validation import declaration
from symphony.placement.pool import Pool
from symphony.placement.prices import LIST_PRICES, Prices
from symphony.plan.problems import Problem
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec


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
    """secrets: the bytes of each secret file; conflict: why it may not have the namespace, and the remedy;
    pools: those of its cluster, from the stack that made it or the live nodes; prices: of their machines.
    """
    problems = list(declaration.check(spec, settings, namespace, secrets or {}))
    if conflict:
        why, remedy = conflict
        problems.append(Problem(f"the namespace {namespace} {why}", remedy, (spec.where,)))
    return Target(
        backend="kubernetes",
        launched_as=namespace,
        starts="image",
        supports=BACKEND.settings,
        one_host=False,
        host_of=f"{settings.named('{service}')}.{namespace}.svc",
        bind_host="0.0.0.0",
        labels=True,
        ports=ports.choose(spec),
        unreadable=unreadable or {},
        defaults={"image": settings.image},
        problems=tuple(problems),
        pools=pools,
        prices=prices,
    )
