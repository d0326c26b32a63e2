"""A spec whose types are right, so that nothing after it looks at types again."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from symphony.plan.problems import Problem
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony.spec.inputs.image import ImageSpec
from symphony.spec.location import Location, part_of
from symphony.spec.mounts import Mount
from symphony.spec.pod import PodSettings
from symphony.spec.process import ProcessSpec
from symphony.spec.services import ServiceUse
from symphony.spec.setting import Setting, settings_of
from symphony.spec.types import WrongTypeError, kind_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

AnySpec = TypeVar("AnySpec", ExperimentSpec, ProcessGroupSpec, ProcessSpec)
AnyPart = TypeVar("AnyPart", bound="DataclassInstance")


@dataclass(frozen=True)
class CheckedSpec(ExperimentSpec):
    """An experiment whose types are right: in place of each value of a wrong one stands a harmless one.

    mistakes: a problem for each of those.
    """

    mistakes: tuple[Problem, ...] = ()


def checked(spec: ExperimentSpec) -> CheckedSpec:
    """The spec as every rule, plan and backend takes it."""
    things = [*spec.processes, *spec.groups, *(each for group in spec.groups for each in group.processes)]
    checker = _Checker({each.name for each in things if isinstance(each.name, str)})  # pyright: ignore[reportUnnecessaryIsInstance]
    clean = checker.fields(spec, "the experiment")
    settings = {field.name: getattr(clean, field.name) for field in dataclasses.fields(ExperimentSpec)}
    settings["processes"] = tuple(checker.process(each, i, "") for i, each in enumerate(spec.processes))
    settings["groups"] = tuple(checker.group(each, i) for i, each in enumerate(spec.groups))
    return CheckedSpec(**settings, mistakes=tuple(checker.problems))


def checked_part(part: AnyPart, who: str, where: Location, name: str) -> tuple[AnyPart, list[Problem]]:
    """Settings of a thing that is in no experiment, and what is wrong with their types.

    name: what stands for its own where that is wrong.
    """
    checker = _Checker(set())
    return checker.part(part, who, lambda _: where, name=name), checker.problems


class _Checker:
    """Walks a spec once and gathers what is wrong with its types."""

    def __init__(self, names: set[str]) -> None:
        self.problems: list[Problem] = []
        self.names = names

    def name_of(self, thing: ProcessSpec | ProcessGroupSpec, stand_in: str) -> str:
        """Its name, or one that no other rule finds fault with."""
        if isinstance(thing.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            return thing.name
        while stand_in in self.names:
            stand_in += "-x"
        self.names.add(stand_in)
        return stand_in

    def group(self, group: ProcessGroupSpec, index: int) -> ProcessGroupSpec:
        name = self.name_of(group, f"group-{index}")
        who = f"process group {name}"
        clean = self.fields(group, who, fallback=name)
        return _with(
            clean,
            processes=tuple(self.process(each, i, f"{name}/") for i, each in enumerate(group.processes)),
            mounts=self.mounts(group.mounts, who),
            place=self.part(group.place, who, group.at, "place "),
            pod=self.pod(group.pod, who, group.at),
        )

    def process(self, process: ProcessSpec, index: int, prefix: str) -> ProcessSpec:
        name = self.name_of(process, f"process-{index}")
        who = f"{prefix}{name}"
        clean = self.fields(process, who, fallback=name)
        return _with(
            clean,
            binds=self.services(process.binds, who, "binds"),
            connects=self.services(process.connects, who, "connects"),
            exposes=self.services(process.exposes, who, "exposes"),
            resource_request=self.part(process.resource_request, who, process.at, "resource_request "),
            resource_limit=self.part(process.resource_limit, who, process.at, "resource_limit "),
            mounts=self.mounts(process.mounts, who),
            place=self.part(process.place, who, process.at, "place "),
            pod=self.pod(process.pod, who, process.at),
        )

    def fields(self, spec: AnySpec, who: str, fallback: str = "experiment") -> AnySpec:
        return self._checked(spec, who, spec.at, fallback)

    def services(self, uses: tuple[ServiceUse, ...], who: str, verb: str) -> tuple[ServiceUse, ...]:
        kept: list[ServiceUse] = []
        for use in uses:
            if isinstance(use.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                kept.append(self._checked(use, f"{who}, service {use.name},", lambda _, use=use: use.where))
            else:
                takes = "service names, lists of them, or {name: port}"
                self._report(who, verb, kind_of(use.name), takes, use.where)
        return tuple(kept)

    def mounts(self, mounts: tuple[Mount, ...], who: str) -> tuple[Mount, ...]:
        kept: list[Mount] = []
        for mount in mounts:
            before = len(self.problems)
            clean = self._checked(mount, f"{who}, mount,", lambda _, mount=mount: mount.where)
            if len(self.problems) == before:
                kept.append(clean)
        return tuple(kept)

    def pod(self, pod: PodSettings, who: str, at: Callable[[str], Location]) -> PodSettings:
        tolerations = tuple(
            self.part(each, f"{who}, toleration,", lambda _, i=i: at(f"tolerations {i}"))
            for i, each in enumerate(pod.tolerations)
        )
        return _with(self.part(pod, who, at), tolerations=tolerations)

    def part(
        self,
        part: AnyPart,
        who: str,
        at: Callable[[str], Location],
        within: str = "",
        name: str | None = None,
    ) -> AnyPart:
        """The settings of a part; `within` is what stands before their names where their lines were noted."""
        return self._checked(part, who, lambda setting: at(f"{within}{setting}"), name)

    def _checked(
        self,
        spec: AnyPart,
        who: str,
        at: Callable[[str], Location],
        name: str | None = None,
    ) -> AnyPart:
        clean: dict[str, Any] = {}
        for setting, empty in _leaves(type(spec)):
            value = getattr(spec, setting.name)
            if value is empty:
                continue
            try:
                result = setting.type.check(value)
                if isinstance(result, ImageSpec):
                    result = self._checked(result, f"image {result.name}", lambda _, made=result: made.where)
                clean[setting.name] = result
            except WrongTypeError as first:
                for error in (first, *first.more):
                    place = at(setting.name if error.name is None else part_of(setting.name, error.name))
                    kind = error.kind or kind_of(value)
                    self._report(who, f"{setting.name}{error.part}", kind, error.takes, place)
                stand_in = name if setting.name == "name" else setting.stand_in
                clean[setting.name] = setting.type.empty() if stand_in is None else stand_in
        return _with(spec, **clean)

    def _report(self, who: str, setting: str, kind: str, takes: str, where: Location) -> None:
        remedy = f"expected {takes}"
        if kind == "Output":
            remedy += "; a Pulumi Output goes into env or secret_env"
        self.problems.append(Problem(f"{who} has {setting} of type {kind}", remedy, (where,)))


@cache
def _leaves(kind: type[Any]) -> tuple[tuple[Setting, Any], ...]:
    """The settings whose values are not made of parts, each with its empty value."""
    return tuple((each, each.type.empty()) for each in settings_of(kind).values() if each.type.part is None)


def _with(spec: AnyPart, **changes: Any) -> AnyPart:
    """The spec itself where nothing changes: most settings of most processes are not made or right."""
    changed = {name: value for name, value in changes.items() if not _same(getattr(spec, name), value)}
    return dataclasses.replace(spec, **changed) if changed else spec


def _same(before: Any, after: Any) -> bool:
    return before is after or (type(before) is tuple and type(after) is tuple and _all_same(before, after))  # pyright: ignore[reportUnknownArgumentType]


def _all_same(before: tuple[Any, ...], after: tuple[Any, ...]) -> bool:
    return len(before) == len(after) and all(map(operator.is_, before, after))
