"""Chooses a pool for each pod and counts the machines.

Each pod gets the cheapest machine that holds it, in a pool that is not full; pods with a named pool
come first. So a later declaration seldom moves it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import cast

from symphony.placement.machines import GIB, MIB
from symphony.placement.pool import (
    GPU_LABEL,
    GPU_TAINT,
    LIST_PRICES,
    POOL_LABEL,
    SPOT_LABEL,
    Amounts,
    Pool,
    Taint,
    available,
)
from symphony.spec.pod import Effect, Toleration

# Domains of labels that machines may have although the pool does not declare them.
_FOREIGN_LABELS = ("kubernetes.io", "k8s.io", "cloud.google.com", "gke.io")
# GKE sets these on every machine that they apply to.
_GKE_LABELS = (POOL_LABEL, GPU_LABEL, SPOT_LABEL)
# A pod that tolerates one of these explicitly may use such a pool.
_GPUS, _SPOT = Taint(GPU_TAINT, "present"), Taint(SPOT_LABEL, "true")


@dataclass(frozen=True)
class Claim:
    """The claim of a container or of a whole pod: cpu in thousandths of a core, memory in bytes.

    parts: if n > 0, amounts that are None are an n-th of a machine.
    """

    cpu: int | None = None
    memory: int | None = None
    gpus: int | None = None
    parts: int = 0


@dataclass(frozen=True)
class Pod:
    """A pod to place.

    claims: the containers' claims. whole: the pod's claim, which containers without a claim share evenly.
    pool:   the only pool that it may use; empty for any pool.
    spot:   whether it may use spot machines. tolerates_all: whether it tolerates every taint.
    """

    name: str
    claims: tuple[Claim, ...]
    whole: Claim | None = None
    pool: str = ""
    gpu_type: str = ""
    spot: bool = False
    tolerates_all: bool = False
    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True)
class Choice:
    """The pool chosen for a pod, the claims of its containers there, and how many such pods fit a machine."""

    pool: Pool
    claims: tuple[Amounts, ...]
    per_machine: int

    def tolerations(self, existing: Sequence[Toleration]) -> tuple[Toleration, ...]:
        """Return the tolerations that the pool requires and the pod lacks."""
        taints = [taint for taint in self.pool.taints if taint.effect != "PreferNoSchedule"]
        if self.pool.gpus and not any(taint.key == GPU_TAINT for taint in taints):
            # GKE itself taints machines that have GPUs.
            taints.append(Taint(GPU_TAINT))
        return tuple(
            Toleration(
                taint.key,
                "Equal" if taint.value else "Exists",
                taint.value or None,
                cast("Effect", taint.effect),
            )
            for taint in taints
            if not is_tolerated(existing, taint)
        )


@dataclass(frozen=True)
class Placement:
    """The result of placing all pods.

    chosen: pod -> its pool. lacking: pod that fits nowhere -> pool -> what the pool lacks.
    machines: pool -> number of machines. tight: pools at their maximum, where pods may stay Pending.
    """

    chosen: Mapping[str, Choice] = field(default_factory=dict[str, Choice])
    lacking: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    machines: Mapping[str, int] = field(default_factory=dict[str, int])
    tight: tuple[str, ...] = ()


class Packing:
    """The machines of a pool, and the free amounts of each; max_machines is None for no limit."""

    def __init__(self, allocatable: Amounts, max_machines: int | None) -> None:
        self._allocatable = allocatable
        self._max_machines = max_machines
        self._sizes: set[Amounts] = set()
        # free amounts -> the number of machines that have just these
        self._free: Counter[Amounts] = Counter()

    @property
    def machines(self) -> int:
        """The number of machines in use."""
        return self._free.total()

    @property
    def is_tight(self) -> bool:
        """Return whether pods may stay Pending: the pool is at its maximum, with pods of several sizes."""
        return self._max_machines is not None and self.machines >= self._max_machines and len(self._sizes) > 1

    def add(self, pod: Amounts) -> bool:
        """Put a pod on a machine; return whether it fits."""
        fullest = min(
            (free for free in self._free if free.holds(pod)),
            default=None,
            key=attrgetter("gpus", "memory", "cpu", "pods"),
        )
        if fullest is None:
            if self._max_machines is not None and self.machines >= self._max_machines:
                return False
            fullest = self._allocatable
        else:
            self._free[fullest] -= 1
            if not self._free[fullest]:
                del self._free[fullest]
        self._free[fullest - pod] += 1
        self._sizes.add(pod)
        return True


def place(pods: Sequence[Pod], pools: Sequence[Pool]) -> Placement:
    """Choose a pool for every pod; pods that name their pool come first."""
    ranked = sorted(pools, key=_rank)
    allocatables = {pool.name: available(pool) for pool in pools}
    packings = {pool.name: Packing(allocatables[pool.name], pool.max) for pool in pools}
    fitting_pools: dict[tuple[object, ...], tuple[list[Choice], dict[str, str]]] = {}
    chosen: dict[str, Choice] = {}
    lacking: dict[str, Mapping[str, str]] = {}
    for pod in sorted(pods, key=lambda pod: not pod.pool):
        requirements = tuple(value for name, value in vars(pod).items() if name != "name")
        if requirements not in fitting_pools:
            fitting_pools[requirements] = _fitting(pod, ranked, allocatables)
        fitting, lacks = fitting_pools[requirements]
        for choice in fitting:
            if packings[choice.pool.name].add(total_of(choice.claims)):
                chosen[pod.name] = choice
                break
        else:
            full = {choice.pool.name: f"is at its max of {choice.pool.max} machines" for choice in fitting}
            lacking[pod.name] = {**lacks, **full}
    return Placement(
        {pod.name: chosen[pod.name] for pod in pods if pod.name in chosen},
        lacking,
        {name: packing.machines for name, packing in packings.items() if packing.machines},
        tuple(name for name, packing in packings.items() if packing.is_tight),
    )


def _rank(pool: Pool) -> float:
    """Return the price of a machine, estimated from its size if it is unknown."""
    hourly = LIST_PRICES.hourly(pool)
    return pool.cpu * 0.03 + pool.memory / GIB * 0.004 + pool.gpus if hourly is None else hourly


def _fitting(
    pod: Pod, pools: Sequence[Pool], allocatables: Mapping[str, Amounts]
) -> tuple[list[Choice], dict[str, str]]:
    """Return the pools that fit the pod, and what the other pools lack."""
    fitting: list[Choice] = []
    lacks: dict[str, str] = {}
    for pool in pools:
        if pod.pool and pool.name != pod.pool:
            continue
        allocatable = allocatables[pool.name]
        claims = claims_of(pod, allocatable)
        total = total_of(claims)
        reasons = [*_refusals(pod, pool, total), *_uneven_shares(pod, allocatable)]
        lack = ", ".join(dict.fromkeys([*reasons, *_too_small(allocatable, total)]))
        if not lack:
            lack = _wrong_share(pod, allocatable, claims, total)
        if lack:
            lacks[pool.name] = lack
        else:
            fitting.append(Choice(pool, claims, _pods_per_machine(allocatable, total)))
    return fitting, lacks


def claims_of(pod: Pod, allocatable: Amounts) -> tuple[Amounts, ...]:
    """Return the claims of a pod's containers on a machine with these amounts."""
    amounts: dict[str, list[int]] = {}
    for kind in ("cpu", "memory", "gpus"):
        claims = [_claimed_amount(claim, kind, allocatable) for claim in pod.claims]
        whole = _claimed_amount(pod.whole, kind, allocatable) if pod.whole else None
        rest = max(0, (whole or 0) - sum(claim or 0 for claim in claims))
        share = _round_memory(rest // max(1, claims.count(None)), kind)
        amounts[kind] = [share if claim is None else claim for claim in claims]
    pods = [1, *[0] * (len(pod.claims) - 1)]
    return tuple(map(Amounts, *amounts.values(), pods))


def _claimed_amount(claim: Claim, kind: str, allocatable: Amounts) -> int | None:
    number: int | None = getattr(claim, kind)
    if number is None and claim.parts:
        return _round_memory(getattr(allocatable, kind) // claim.parts, kind)
    return number


def _round_memory(amount: int, kind: str) -> int:
    return amount // MIB * MIB if kind == "memory" else amount


def total_of(claims: Sequence[Amounts]) -> Amounts:
    return sum(claims[1:], claims[0])


def _pods_per_machine(allocatable: Amounts, total: Amounts) -> int:
    """Return how many such pods a machine holds."""
    pairs = zip(vars(allocatable).values(), vars(total).values(), strict=True)
    return min(have // claimed for have, claimed in pairs if claimed)


def _refusals(pod: Pod, pool: Pool, total: Amounts) -> list[str]:
    """Return why the pod may not run in the pool, whatever its size."""
    lacks: list[str] = []
    if pod.gpu_type and pool.gpu_type != pod.gpu_type:
        lacks.append(f"has {pool.gpu_type or 'no GPUs'}")
    if pool.gpus and not (total.gpus or pod.pool or is_tolerated(pod.tolerations, _GPUS)):
        lacks.append("is reserved for processes with GPUs")
    if pool.spot and not (pod.spot or pod.pool or is_tolerated(pod.tolerations, _SPOT)):
        lacks.append("has spot machines")
    labels = pool.node_labels
    for key, value in pod.selector:
        if labels.get(key, value if _is_foreign(key) else None) != value:
            other = f"has {key}={labels.get(key)}, not {value}"
            lacks.append(other if key in labels else f"has no label {key}")
    for taint in pool.taints:
        is_allowed = taint.key in (GPU_TAINT, SPOT_LABEL) or pod.tolerates_all or pod.pool
        if not is_allowed and taint.effect != "PreferNoSchedule" and not is_tolerated(pod.tolerations, taint):
            lacks.append(f"has the taint {taint.key}{f'={taint.value}' if taint.value else ''}")
    return lacks


def _is_foreign(key: str) -> bool:
    return key not in _GKE_LABELS and key.partition("/")[0].endswith(_FOREIGN_LABELS)


def is_tolerated(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Return whether any of the tolerations matches a taint."""
    return any(
        toleration.effect in (None, "", taint.effect)
        and toleration.key in (None, "", taint.key)
        and (toleration.operator == "Exists" or (toleration.value or "") == taint.value)
        for toleration in tolerations
    )


def _uneven_shares(pod: Pod, allocatable: Amounts) -> list[str]:
    """Return why the pod's processes cannot share the GPUs of a machine evenly."""
    parts = [
        claim.parts for claim in (*pod.claims, pod.whole) if claim and claim.parts and claim.gpus is None
    ]
    lacks = [
        f"has {allocatable.gpus} GPUs, which {part} cannot share evenly"
        for part in parts
        if allocatable.gpus % part
    ]
    if pod.whole and not lacks:
        named = sum(claim.gpus or 0 for claim in pod.claims)
        rest = max(0, (_claimed_amount(pod.whole, "gpus", allocatable) or 0) - named)
        unclaimed = sum(1 for claim in pod.claims if claim.gpus is None and not claim.parts)
        if unclaimed and rest % unclaimed:
            lacks.append(
                f"has {rest} GPUs for {unclaimed} processes of the group: set gpu on each that needs GPUs"
            )
    return lacks


def _too_small(allocatable: Amounts, total: Amounts) -> list[str]:
    lacks: list[str] = []
    if total.cpu > allocatable.cpu:
        lacks.append(f"{_cores(allocatable.cpu)} cpu ({_cores(total.cpu, up=True)} needed)")
    if total.memory > allocatable.memory:
        lacks.append(f"{_gib(allocatable.memory)} GiB ({_gib(total.memory, up=True)} needed)")
    if total.gpus > allocatable.gpus:
        lacks.append(f"{allocatable.gpus} gpu ({total.gpus} needed)" if allocatable.gpus else "no GPUs")
    return [f"has {', '.join(lacks)}"] if lacks else []


def _wrong_share(pod: Pod, allocatable: Amounts, claims: Sequence[Amounts], total: Amounts) -> str:
    """Return a message if explicit claims change how many pods fit a machine, else an empty string."""
    wholes = [(pod.whole, total)] if pod.whole else []
    for claim, amounts in (*zip(pod.claims, claims, strict=True), *wholes):
        fits = _pods_per_machine(allocatable, amounts + Amounts(pods=1 - amounts.pods))
        if claim.parts and fits != claim.parts:
            change = "less" if fits < claim.parts else "more"
            return f"has room for {fits} of these per machine, not for {claim.parts}: request {change}"
    return ""


def _cores(cpu: int, *, up: bool = False) -> str:
    """Return cores as text; claims are rounded up and offers down, so that a misfit shows."""
    return f"{(cpu + (9 if up else 0)) // 10 / 100:g}"


def _gib(memory: int, *, up: bool = False) -> str:
    tenth = GIB / 10
    return f"{int((memory + (tenth - 1 if up else 0)) / tenth) / 10:g}"


@dataclass(frozen=True)
class PlacedPod:
    """A pod in a pool: its total claim, and how many such pods fit a machine."""

    pod: str
    per_machine: int
    cpu: int
    memory: int
    gpus: int


@dataclass(frozen=True)
class PoolUse:
    """A pool with its pods, the number of machines they need, and the price; hourly is None if unknown."""

    name: str
    machine_type: str
    gpu_type: str
    gpus: int
    spot: bool
    machines: int
    min: int
    max: int | None
    hourly: float | None
    takes: tuple[PlacedPod, ...]


@dataclass(frozen=True)
class Summary:
    """The pools that take pods, and their total price; hourly is None if any price is unknown.

    priced: the month and the region of the prices.
    """

    pools: tuple[PoolUse, ...]
    hourly: float | None
    priced: str

    @cached_property
    def pool_of(self) -> Mapping[str, PoolUse]:
        """The pool of every pod."""
        return {placed.pod: pool for pool in self.pools for placed in pool.takes}


def summarize(placement: Placement, pools: Sequence[Pool], names: Mapping[str, str]) -> Summary | None:
    """Return the summary of a placement, None if it is empty; names: pod -> its name in the backend."""
    if not placement.chosen:
        return None
    pods_of: dict[str, list[PlacedPod]] = {}
    for pod, choice in placement.chosen.items():
        total = total_of(choice.claims)
        pods_of.setdefault(choice.pool.name, []).append(
            PlacedPod(names.get(pod, pod), choice.per_machine, total.cpu, total.memory, total.gpus)
        )
    uses = tuple(
        _use(pool, placement.machines[pool.name], tuple(pods_of[pool.name]))
        for pool in pools
        if pool.name in pods_of
    )
    prices_known = [use.hourly for use in uses if use.hourly is not None]
    hourly = round(sum(prices_known), 4) if len(prices_known) == len(uses) else None
    return Summary(uses, hourly, LIST_PRICES.month_and_region)


def _use(pool: Pool, machines: int, takes: tuple[PlacedPod, ...]) -> PoolUse:
    hourly = LIST_PRICES.hourly(pool)
    return PoolUse(
        name=pool.name,
        machine_type=pool.machine_type,
        gpu_type=pool.gpu_type,
        gpus=pool.gpus,
        spot=pool.spot,
        machines=machines,
        min=pool.min,
        max=pool.max,
        hourly=None if hourly is None else round(machines * hourly, 4),
        takes=takes,
    )
