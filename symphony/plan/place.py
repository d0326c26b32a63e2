"""Places the pods of an experiment in the pools of its cluster."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from symphony.placement import machines, planner
from symphony.placement.planner import Claim, Placement, Pod
from symphony.placement.pool import Amounts
from symphony.placement.quantities import WRITE_ONE, amount
from symphony.plan.names import nearest, shown
from symphony.plan.problems import Problem
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony.spec.location import Location
from symphony.spec.pod import Place, PodSettings, Toleration
from symphony.spec.process import ProcessSpec, Resources

_GPU = "nvidia.com/gpu"
_UNASKED = Place()
_NOTHING = Resources()
# Fields of a pod_yml that choose machines.
_BY_HAND = ("nodeName", "affinity", "schedulerName")


@dataclass(frozen=True)
class Places:
    """The pools that the planner chose, and the settings that follow.

    problems:  pods that fit nowhere; remarks: pools where some pods may stay Pending.
    resources: the requests and limits of every placed process, by its path in the program.
    pods:      the settings of pods, by the names of free processes and groups in the program.
    """

    placement: Placement = field(default_factory=Placement)
    problems: tuple[Problem, ...] = ()
    remarks: tuple[Problem, ...] = ()
    resources: Mapping[str, tuple[Resources, Resources]] = field(
        default_factory=dict[str, tuple[Resources, Resources]]
    )
    pods: Mapping[str, PodSettings] = field(default_factory=dict[str, PodSettings])


def place(spec: ExperimentSpec, target: Target) -> Places:
    """Place every pod of the experiment in a pool; without known pools, only check the amounts."""
    if "place" not in target.supports:
        return Places()
    reader = _Reader(target)
    pods = [pod for each in _pods(spec) if (pod := reader.pod(each)) is not None]
    placement = planner.place(pods, target.pools, target.prices) if target.pools else Placement()
    problems = [*reader.problems, *_misfits(spec, pods, placement), *_untolerated(spec, placement)]
    return Places(
        placement,
        tuple(problems),
        tuple(_tight(placement)),
        _resources(spec, pods, placement),
        dict(_settings(spec, placement)),
    )


@dataclass(frozen=True)
class _PodOf:
    """A free process, or a group with its processes."""

    owner: ProcessSpec | ProcessGroupSpec
    processes: tuple[ProcessSpec, ...]

    @property
    def name(self) -> str:
        return self.owner.name

    @property
    def whole(self) -> Place:
        """The place() of the pod, not of one container."""
        return _UNASKED if isinstance(self.owner, ProcessSpec) else self.owner.place

    @cached_property
    def places(self) -> tuple[tuple[str, ProcessSpec | ProcessGroupSpec], ...]:
        """The group and processes with a place(), with their names."""
        members = [(self.path(each), each) for each in self.processes]
        group = [] if isinstance(self.owner, ProcessSpec) else [(self.owner.name, self.owner)]
        return tuple((who, each) for who, each in (*group, *members) if each.place != _UNASKED)

    def path(self, process: ProcessSpec) -> str:
        return process.name if process is self.owner else f"{self.owner.name}/{process.name}"


def _pods(spec: ExperimentSpec) -> Iterator[_PodOf]:
    for process in spec.processes:
        yield _PodOf(process, (process,))
    for group in spec.groups:
        if group.processes:
            yield _PodOf(group, group.processes)


class _Reader:
    """Makes the planner's pods, and gathers what is wrong in them."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.problems: list[Problem] = []

    def pod(self, of: _PodOf) -> Pod | None:
        """Return the pod; None where pod_yml names its machine, or where it cannot be placed."""
        before = len(self.problems)
        raw = _mapping(of.owner.pod.pod_yml.get("spec"))
        selector = {**of.owner.pod.node_selector, **_mapping(raw.get("nodeSelector"))}
        for who, owner in of.places:
            self._amounts(who, owner)
            self._needs_pools(who, owner)
        claims = (*(self._claim(of.path(each), each) for each in of.processes), *_of_pod_yml(of, raw))
        chosen = {name: self._common(of, name) for name in ("pool", "gpu_type", "spot")}
        gpu_type = machines.gpu_type_of(chosen["gpu_type"]) if chosen["gpu_type"] else ""
        whole = _claim(of.whole) if of.whole != _UNASKED else None
        if gpu_type and not any(
            each.gpus is not None or each.parts for each in (*claims, *filter(None, [whole]))
        ):
            claims = (dataclasses.replace(claims[0], gpus=1), *claims[1:])
        if names := [name for name in _BY_HAND if _chooses(raw, name)]:
            if of.places:
                self._report(of, f"{of.name} is placed twice: by place() and by {names[0]} of pod_yml")
            return None
        if len(self.problems) > before:
            return None
        return Pod(
            of.name,
            claims,
            whole=whole,
            pool=chosen["pool"] or "",
            gpu_type=gpu_type,
            spot=bool(chosen["spot"]),
            selector=tuple(selector.items()),
            tolerations=of.owner.pod.tolerations,
        )

    def _amounts(self, who: str, owner: ProcessSpec | ProcessGroupSpec) -> None:
        place = owner.place
        if place.per_machine is not None and place.per_machine < 1:
            self._at(
                owner, "per_machine", f"{who} has per_machine={place.per_machine} in place()", "set 1 or more"
            )
        if place.gpu is not None and place.gpu < 0:
            self._at(owner, "gpu", f"{who} is placed with {place.gpu} GPUs", "ask for none or more")
        for kind in ("cpu", "memory"):
            given = getattr(place, kind)
            if given is not None and amount(given) is None:
                self._at(owner, kind, f"{who} is placed with {kind} {shown(str(given))}", WRITE_ONE)

    def _needs_pools(self, who: str, owner: ProcessSpec | ProcessGroupSpec) -> None:
        names = [each.name for each in self.target.pools]
        place = owner.place
        if not self.target.pools_are_known:
            return
        if not names and (place.pool or place.per_machine or place.gpu_type or place.spot):
            remedy = "name the stack that made the cluster with symphony:cluster"
            self._at(owner, "pool", f"{who} is placed, but the pools of the cluster are not known", remedy)
        elif place.pool and place.pool not in names:
            near = nearest(place.pool, names)
            remedy = f"did you mean {shown(near)}?" if near else f"its pools are {', '.join(names)}"
            what = f"{who} is placed on {shown(place.pool)}, which the cluster does not have"
            self._at(owner, "pool", what, remedy)

    def _claim(self, who: str, process: ProcessSpec) -> Claim:
        """Return the claim of a process; requests and limits go before a share."""
        own = _claim(process.place)
        by_hand = _by_hand(process)
        for kind, given in by_hand.items():
            placed = getattr(own, kind)
            if placed is not None and placed != given:
                setting = "gpu" if kind == "gpus" else kind
                what = f"{who} says {setting} in place() and another in resource_request or resource_limit"
                self._at(process, setting, what, "set it once")
        return dataclasses.replace(own, **by_hand)

    def _common(self, of: _PodOf, name: str) -> Any:
        """Return the value that the place() calls of one pod have in common."""
        given = {
            getattr(each.place, name): who for who, each in of.places if getattr(each.place, name) is not None
        }
        if len(given) > 1:
            words = ", ".join(f"{who} says {shown(value)}" for value, who in given.items())
            self._report(of, f"{of.name} is one pod, on one machine: of {name} {words}")
        return next(iter(given), None)

    def _report(self, of: _PodOf, what: str) -> None:
        places = tuple(each.at("place") for _, each in of.places)
        self.problems.append(Problem(what, "leave one of them out", tuple(dict.fromkeys(places))))

    def _at(self, owner: ProcessSpec | ProcessGroupSpec, part: str, what: str, remedy: str) -> None:
        self.problems.append(Problem(what, remedy, (owner.at(f"place {part}"),)))


def _of_pod_yml(of: _PodOf, raw: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield the claims of containers that pod_yml adds."""
    names = [each.name for each in of.processes]
    for container in map(_mapping, _list(raw.get("containers"))):
        if container.get("name") not in names:
            resources = _mapping(container.get("resources"))
            claims = {**_mapping(resources.get("limits")), **_mapping(resources.get("requests"))}
            yield Claim(
                _cores(claims.get("cpu")) or 0,
                _bytes(claims.get("memory")) or 0,
                _integer(claims.get(_GPU)) or 0,
            )


def _chooses(pod_yml: Mapping[str, Any], name: str) -> bool:
    value = pod_yml.get(name)
    return "nodeAffinity" in _mapping(value) if name == "affinity" else bool(value)


def _claim(place: Place) -> Claim:
    return Claim(_cores(place.cpu), _bytes(place.memory), place.gpu, max(0, place.per_machine or 0))


def _by_hand(process: ProcessSpec) -> dict[str, int]:
    """Return the requests, else the limits, as Kubernetes reads them; container_yml goes before both."""
    result: dict[str, int] = {}
    if not process.container_yml and process.resource_limit == process.resource_request == _NOTHING:
        return result
    raw = _mapping(process.container_yml.get("resources"))
    for name, resources in (("limits", process.resource_limit), ("requests", process.resource_request)):
        own = _mapping(raw.get(name))
        amounts = (
            ("cpu", _cores(own.get("cpu", resources.cpu))),
            ("memory", _bytes(own.get("memory", resources.memory))),
            ("gpus", _integer(own.get(_GPU, resources.gpu))),
        )
        result.update({kind: value for kind, value in amounts if value is not None})
    return result


def _cores(given: object) -> int | None:
    return None if (value := amount(given)) is None else math.ceil(value * 1000)


def _bytes(given: object) -> int | None:
    return None if (value := amount(given)) is None else math.ceil(value)


def _integer(given: object) -> int | None:
    return None if (value := amount(given)) is None else int(value)


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _misfits(spec: ExperimentSpec, pods: Iterable[Pod], placement: Placement) -> Iterator[Problem]:
    """Yield the pods that fit nowhere, with what every pool lacks."""
    owners = {each.name: each for each in _pods(spec)}
    for pod in pods:
        if (lacking := placement.lacking.get(pod.name)) is None:
            continue
        (first, lack), *_ = lacking.items()
        pools = "; ".join(f"{pool} {lack}" for pool, lack in lacking.items())
        what = (
            f"{pod.name} does not fit {first}: it {lack}" if pod.pool else f"{pod.name} fits no pool: {pools}"
        )
        # What would do alone.
        spot = ", set spot=True" if "has spot machines" in lacking.values() else ""
        alone = any(lack.startswith("has the taint ") and "," not in lack for lack in lacking.values())
        taint = ", name the pool or tolerate its taint" if alone else ""
        remedy = f"ask for less{spot}{taint}, or change the pools of the cluster"
        yield Problem(what, remedy, (_line(owners[pod.name]),))


def _untolerated(spec: ExperimentSpec, placement: Placement) -> Iterator[Problem]:
    """Yield taints that tolerations in pod_yml, which replace all others, do not match."""
    for of in _pods(spec):
        given = _mapping(of.owner.pod.pod_yml.get("spec")).get("tolerations")
        if given is None or (choice := placement.chosen.get(of.name)) is None:
            continue
        fields = ("key", "operator", "value", "effect")
        own = [Toleration(*map(_mapping(each).get, fields)) for each in given or ()]  # pyright: ignore[reportArgumentType]
        for each in choice.tolerations(own):
            pool = choice.pool.name
            what = f"{of.name} has tolerations in pod_yml, and not one of {each.key}, the taint of {pool}"
            yield Problem(what, "call add_toleration() instead, or add it there", (_line(of),))


def _line(of: _PodOf) -> Location:
    owner = next((each for _, each in of.places), None)
    return owner.at("place") if owner else of.processes[0].at("resource_request")


def _tight(placement: Placement) -> Iterator[Problem]:
    for pool in placement.tight:
        what = f"pool {pool} is at its maximum and tight: some pods may stay Pending"
        yield Problem(what, "raise its max, or claim equal shares of a machine")


def _resources(
    spec: ExperimentSpec, pods: Iterable[Pod], placement: Placement
) -> dict[str, tuple[Resources, Resources]]:
    """Return the requests and limits of the placed processes."""
    owners = {each.name: each for each in _pods(spec)}
    result: dict[str, tuple[Resources, Resources]] = {}
    for pod in pods:
        of, choice = owners[pod.name], placement.chosen.get(pod.name)
        if not of.places:
            continue
        claims = choice.claims if choice else planner.claims_of(pod, Amounts())
        for process, claimed in zip(of.processes, claims, strict=False):
            result[of.path(process)] = _written(process, claimed)
    return result


def _written(process: ProcessSpec, claimed: Amounts) -> tuple[Resources, Resources]:
    """Return a share as requests and limits; memory and GPUs are limited, so that neighbours keep theirs."""
    by_hand, request, limit = _by_hand(process), process.resource_request, process.resource_limit
    if "cpu" not in by_hand and claimed.cpu:
        request = dataclasses.replace(request, cpu=process.place.cpu or f"{claimed.cpu}m")
    if "memory" not in by_hand and claimed.memory:
        memory = process.place.memory or f"{claimed.memory // machines.MIB}Mi"
        request, limit = (dataclasses.replace(each, memory=memory) for each in (request, limit))
    if "gpus" not in by_hand and claimed.gpus:
        limit = dataclasses.replace(limit, gpu=claimed.gpus)
    return request, limit


def _settings(spec: ExperimentSpec, placement: Placement) -> Iterator[tuple[str, PodSettings]]:
    """Yield the settings of pods with the labels and tolerations of their pools."""
    for of in _pods(spec):
        if (choice := placement.chosen.get(of.name)) is None:
            continue
        settings = of.owner.pod
        yield (
            of.name,
            dataclasses.replace(
                settings,
                node_selector={**choice.pool.selects, **settings.node_selector},
                tolerations=(*settings.tolerations, *choice.tolerations(settings.tolerations)),
            ),
        )
