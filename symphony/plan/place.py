"""Places the pods of an experiment in the pools of its cluster."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from symphony.placement import machines, planner
from symphony.placement.planner import Choice, Claim, Placement, Pod
from symphony.placement.pool import Amounts
from symphony.placement.quantities import amount
from symphony.plan.backend_limits import BackendLimits
from symphony.plan.names import did_you_mean, quoted
from symphony.plan.problems import Problem
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony.spec.location import Location
from symphony.spec.pod import Place, PodSettings
from symphony.spec.process import ProcessSpec, Resources

_GPU = "nvidia.com/gpu"
_NO_PLACE = Place()
_NO_RESOURCES = Resources()
# The fields of a pod_yml that choose machines.
_MACHINE_FIELDS = ("nodeName", "affinity", "schedulerName")


@dataclass(frozen=True)
class Places:
    """The pools that the planner chose, and the settings that follow from them.

    Attributes:
        problems: Pods that fit no pool, and mistakes in what the program requests.
        remarks: Pools where some pods may stay Pending.
        resources: The requests and limits of processes whose pod calls place(), by their paths.
        pods: The settings of pods, by the program's names of ungrouped processes and groups.
    """

    placement: Placement = field(default_factory=Placement)
    problems: tuple[Problem, ...] = ()
    remarks: tuple[Problem, ...] = ()
    resources: Mapping[str, tuple[Resources, Resources]] = field(
        default_factory=dict[str, tuple[Resources, Resources]]
    )
    pods: Mapping[str, PodSettings] = field(default_factory=dict[str, PodSettings])


def place(spec: ExperimentSpec, limits: BackendLimits) -> Places:
    """Choose a pool for every pod of the experiment; without known pools, return only requests and limits."""
    if "place" not in limits.supports:
        return Places()
    reader = _Reader(limits)
    by_name = {declared.name: declared for declared in _declared_pods(spec)}
    pods = [pod for declared in by_name.values() if (pod := reader.pod(declared)) is not None]
    placement = planner.place(pods, limits.pools) if limits.pools else Placement()
    return Places(
        placement,
        (*reader.problems, *_misfits(by_name, pods, placement)),
        tuple(map(_tight_pool, placement.tight)),
        dict(_resources(by_name, pods, placement)),
        {name: _on_pool(by_name[name].owner.pod, choice) for name, choice in placement.chosen.items()},
    )


@dataclass(frozen=True)
class _DeclaredPod:
    """A pod as declared: an ungrouped process, or a group with its processes."""

    owner: ProcessSpec | ProcessGroupSpec
    processes: tuple[ProcessSpec, ...]

    @property
    def name(self) -> str:
        return self.owner.name

    @property
    def whole(self) -> Place:
        """The place() call of the group, which is for the pod as a whole."""
        return _NO_PLACE if isinstance(self.owner, ProcessSpec) else self.owner.place

    @cached_property
    def callers(self) -> tuple[tuple[str, ProcessSpec | ProcessGroupSpec], ...]:
        """The names and specs of the group and the processes that call place()."""
        members = [(self.path(process), process) for process in self.processes]
        group = [] if isinstance(self.owner, ProcessSpec) else [(self.owner.name, self.owner)]
        return tuple((name, owner) for name, owner in (*group, *members) if owner.place != _NO_PLACE)

    @property
    def line(self) -> Location:
        """The line of the program that declares what the pod needs."""
        for _, owner in self.callers:
            return owner.at("place")
        return self.processes[0].at("resource_request")

    def path(self, process: ProcessSpec) -> str:
        return process.name if process is self.owner else f"{self.owner.name}/{process.name}"


def _declared_pods(spec: ExperimentSpec) -> Iterator[_DeclaredPod]:
    for process in spec.processes:
        yield _DeclaredPod(process, (process,))
    for group in spec.groups:
        if group.processes:
            yield _DeclaredPod(group, group.processes)


class _Reader:
    """Converts declared pods to the planner's pods, and gathers their problems."""

    def __init__(self, limits: BackendLimits) -> None:
        self.limits = limits
        self.problems: list[Problem] = []

    def pod(self, declared: _DeclaredPod) -> Pod | None:
        """Return the pod; None if pod_yml chooses its machine or the pod has problems."""
        before = len(self.problems)
        manifest = _mapping(declared.owner.pod.pod_yml.get("spec"))
        selector = {**declared.owner.pod.node_selector, **_mapping(manifest.get("nodeSelector"))}
        for name, owner in declared.callers:
            self._check_pools(name, owner)
        claims = [self._claim(declared.path(process), process) for process in declared.processes]
        common = {name: self._common(declared, name) for name in ("pool", "gpu_type", "spot")}
        gpu_type = machines.gpu_type_of(common["gpu_type"]) if common["gpu_type"] else ""
        whole = _claim(declared.whole) if declared.whole != _NO_PLACE else None
        counted = [claim for claim in (*claims, whole) if claim and (claim.gpus is not None or claim.parts)]
        if gpu_type and not counted:
            claims[0] = dataclasses.replace(claims[0], gpus=1)
        if fields := [name for name in _MACHINE_FIELDS if _chooses_machine(manifest, name)]:
            if declared.callers:
                what = f"{declared.name} is placed twice: by place() and by {fields[0]} in pod_yml"
                self._report(declared, what)
            return None
        if len(self.problems) > before:
            return None
        return Pod(
            declared.name,
            tuple(claims),
            whole=whole,
            pool=common["pool"] or "",
            gpu_type=gpu_type,
            spot=bool(common["spot"]),
            selector=tuple(selector.items()),
            tolerations=declared.owner.pod.tolerations,
        )

    def _check_pools(self, name: str, owner: ProcessSpec | ProcessGroupSpec) -> None:
        pools = [pool.name for pool in self.limits.pools]
        place = owner.place
        # No cluster was asked for its pools, as in an offline plan, or the backend has none.
        if not self.limits.pools_are_known:
            return
        if not pools and (place.pool or place.per_machine or place.gpu_type or place.spot):
            remedy = "name the stack that made the cluster with symphony:cluster"
            self._report_at(
                owner, "pool", f"{name} calls place(), but the pools of the cluster are not known", remedy
            )
        elif place.pool and place.pool not in pools:
            remedy = did_you_mean(place.pool, pools, f"its pools are {', '.join(pools)}")
            what = f"{name} requests pool {quoted(place.pool)} in place(), which the cluster does not have"
            self._report_at(owner, "pool", what, remedy)

    def _claim(self, path: str, process: ProcessSpec) -> Claim:
        """Return the claim of a process; its requests and limits take precedence over its share."""
        own = _claim(process.place)
        explicit = _explicit_amounts(process)
        for kind, claimed in explicit.items():
            placed = getattr(own, kind)
            if placed is not None and placed != claimed:
                name = "gpu" if kind == "gpus" else kind
                what = f"{path} sets {name} in place(), and differently in resource_request or resource_limit"
                self._report_at(process, name, what, "set it once")
        return dataclasses.replace(own, **explicit)

    def _common(self, declared: _DeclaredPod, name: str) -> Any:
        """Return the value of a place() argument that all calls of a pod agree on."""
        values = {getattr(owner.place, name): path for path, owner in declared.callers}
        values.pop(None, None)
        if len(values) > 1:
            calls = ", ".join(f"{path} sets {quoted(value)}" for value, path in values.items())
            what = f"{declared.name} is a single pod, but its place() calls differ in {name}: {calls}"
            self._report(declared, what)
        return next(iter(values), None)

    def _report(self, declared: _DeclaredPod, what: str) -> None:
        lines = dict.fromkeys(owner.at("place") for _, owner in declared.callers)
        self.problems.append(Problem(what, "remove one of them", tuple(lines)))

    def _report_at(self, owner: ProcessSpec | ProcessGroupSpec, part: str, what: str, remedy: str) -> None:
        self.problems.append(Problem(what, remedy, (owner.at(f"place {part}"),)))


def _chooses_machine(manifest: Mapping[str, Any], name: str) -> bool:
    value = manifest.get(name)
    return "nodeAffinity" in _mapping(value) if name == "affinity" else bool(value)


def _claim(place: Place) -> Claim:
    return Claim(_integer(place.cpu, 1000), _integer(place.memory), place.gpu, place.per_machine or 0)


def _explicit_amounts(process: ProcessSpec) -> dict[str, int]:
    """Return the requests, else the limits, as Kubernetes reads them; container_yml overrides both."""
    claimed: dict[str, int] = {}
    if not process.container_yml and process.resource_limit == process.resource_request == _NO_RESOURCES:
        return claimed
    manifest = _mapping(process.container_yml.get("resources"))
    for name, resources in (("limits", process.resource_limit), ("requests", process.resource_request)):
        own = _mapping(manifest.get(name))
        amounts = {
            "cpu": _integer(own.get("cpu", resources.cpu), 1000),
            "memory": _integer(own.get("memory", resources.memory)),
            "gpus": _integer(own.get(_GPU, resources.gpu)),
        }
        claimed.update({kind: number for kind, number in amounts.items() if number is not None})
    return claimed


def _integer(quantity: object, scale: int = 1) -> int | None:
    """Return a quantity times `scale`, rounded up; None if it is not a quantity."""
    return None if (number := amount(quantity)) is None else math.ceil(number * scale)


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _misfits(
    by_name: Mapping[str, _DeclaredPod], pods: Iterable[Pod], placement: Placement
) -> Iterator[Problem]:
    """Yield a problem for each pod that fits nowhere, with what every pool lacks."""
    for pod in pods:
        if (lacking := placement.lacking.get(pod.name)) is None:
            continue
        (first, lack), *_ = lacking.items()
        pools = "; ".join(f"{pool} {lack}" for pool, lack in lacking.items())
        what = (
            f"{pod.name} does not fit pool {first}, which {lack}"
            if pod.pool
            else f"{pod.name} fits no pool: {pools}"
        )
        spot = ", set spot=True" if "has spot machines" in lacking.values() else ""
        # True if only a taint keeps the pod from a pool.
        alone = any(lack.startswith("has the taint ") and "," not in lack for lack in lacking.values())
        taint = ", name the pool or tolerate its taint" if alone else ""
        change = "more" if any(lack.endswith("request more") for lack in lacking.values()) else "less"
        remedy = f"request {change}{spot}{taint}, or change the pools of the cluster"
        yield Problem(what, remedy, (by_name[pod.name].line,))


def _tight_pool(pool: str) -> Problem:
    what = f"pool {pool} is almost full at its maximum size: some pods may stay Pending"
    remedy = "raise the pool's max, or give all its pods the same size, as by place(per_machine=4)"
    return Problem(what, remedy)


def _resources(
    by_name: Mapping[str, _DeclaredPod], pods: Iterable[Pod], placement: Placement
) -> Iterator[tuple[str, tuple[Resources, Resources]]]:
    """Yield the path of every process of a pod that calls place(), with its requests and limits."""
    for pod in pods:
        declared, choice = by_name[pod.name], placement.chosen.get(pod.name)
        if not declared.callers:
            continue
        claims = choice.claims if choice else planner.claims_of(pod, Amounts())
        for process, claimed in zip(declared.processes, claims, strict=True):
            yield declared.path(process), _requests_and_limits(process, claimed)


def _requests_and_limits(process: ProcessSpec, claimed: Amounts) -> tuple[Resources, Resources]:
    """Return a share as requests and limits; memory and GPUs get limits, to protect neighbours."""
    explicit, request, limit = _explicit_amounts(process), process.resource_request, process.resource_limit
    if "cpu" not in explicit and claimed.cpu:
        request = dataclasses.replace(request, cpu=process.place.cpu or f"{claimed.cpu}m")
    if "memory" not in explicit and claimed.memory:
        memory = process.place.memory or f"{claimed.memory // machines.MIB}Mi"
        request = dataclasses.replace(request, memory=memory)
        limit = dataclasses.replace(limit, memory=memory)
    if "gpus" not in explicit and claimed.gpus:
        limit = dataclasses.replace(limit, gpu=claimed.gpus)
    return request, limit


def _on_pool(settings: PodSettings, choice: Choice) -> PodSettings:
    return dataclasses.replace(
        settings,
        node_selector={**choice.pool.selects, **settings.node_selector},
        tolerations=(*settings.tolerations, *choice.tolerations(settings.tolerations)),
    )
