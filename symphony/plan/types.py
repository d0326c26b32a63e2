"""Wrong types found and taken out, so that every other rule can trust the types; build_plan calls it."""

from __future__ import annotations

import dataclasses
import numbers
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, TypeVar, cast

from symphony.plan.problems import Problem
from symphony.spec.experiment import ExperimentSpec
from symphony.spec.group import ProcessGroupSpec
from symphony.spec.location import Location, part_of
from symphony.spec.mounts import Mount
from symphony.spec.plain import NotPlainError, plain
from symphony.spec.pod import PodSettings, Toleration
from symphony.spec.process import ProcessSpec, Resources
from symphony.spec.services import ServiceUse

AnySpec = TypeVar("AnySpec", ExperimentSpec, ProcessGroupSpec, ProcessSpec)
AnyPart = TypeVar(
    "AnyPart",
    ExperimentSpec,
    ProcessGroupSpec,
    ProcessSpec,
    Resources,
    PodSettings,
    Toleration,
    ServiceUse,
    Mount,
)


class _WrongTypeError(Exception):
    """A value is not of the type its setting takes: what it takes, and which part of the value is wrong.

    name is the part's own, where the value is a mapping.
    """

    def __init__(self, takes: str, part: str = "", kind: str = "", name: object = None) -> None:
        super().__init__(takes, part, kind, name)
        self.takes = takes
        self.part = part
        self.kind = kind
        self.name = name


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _WrongTypeError("text")
    return str.__str__(value)


def _number_or_text(value: Any) -> str | int | float:
    if isinstance(value, numbers.Real) and not isinstance(value, (bool, str)):
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    if not isinstance(value, str):
        raise _WrongTypeError("a number or text")
    return str.__str__(value)


def _as_text(value: Any) -> str:
    return str(_number_or_text(value))


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise _WrongTypeError("a whole number")
    return int(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _WrongTypeError("True or False")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise _WrongTypeError("a list of texts, or one text with balanced quotes")
    if not isinstance(value, (list, tuple)):
        raise _WrongTypeError("a list of texts")
    return tuple(_within(f"[{i}]", _as_text, each) for i, each in enumerate(cast("list[Any]", value)))


def _variables(value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise _WrongTypeError("a mapping from names to texts")
    return {_name(name): _within(f"[{name!r:.60}]", _value, each, name) for name, each in _items(value)}


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise _WrongTypeError("names that are text", f" with the name {name!r:.60}", _kind(name), name)
    return str.__str__(name)


def _value(value: Any) -> str:
    return str(value) if isinstance(value, bool) else _as_text(value)


def _within(part: str, check: Callable[[Any], Any], value: Any, name: object = None) -> Any:
    """Check a part of a value; the error names the part."""
    try:
        return check(value)
    except _WrongTypeError as error:
        raise _WrongTypeError(f"{error.takes} there", part, _kind(value), name) from None


def _plain_mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _WrongTypeError("a mapping")
    try:
        return plain(value)
    except NotPlainError as error:
        raise _WrongTypeError(f"{error.takes} there", error.part, error.kind) from None


def _port_range(value: Any) -> tuple[int, int]:
    pair = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ()
    ports = [int(each) for each in pair if isinstance(each, numbers.Integral) and 1 <= int(each) <= 65535]
    if not len(pair) == len(ports) == 2 or ports[0] > ports[1]:
        raise _WrongTypeError("the first and the last port, such as (7000, 7999)")
    return ports[0], ports[1]


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    return cast("Mapping[Any, Any]", value).items()


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def _optional(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else check(value)


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "name": _text,
    "command": _optional(_texts),
    "args": _texts,
    "cmds": _texts,
    "preamble_cmds": _texts,
    "inherit": _texts,
    "secrets": _texts,
    "configs": _texts,
    "unknown": _texts,
    "start_dir": _optional(_text),
    "image": _optional(_text),
    "image_pull_policy": _optional(_text),
    "env": _variables,
    "container_yml": _plain_mapping,
    "port_range": _optional(_port_range),
    # of services, resources, pods, tolerations and mounts
    "port": _optional(_whole),
    "cpu": _optional(_number_or_text),
    "memory": _optional(_number_or_text),
    "gpu": _optional(_whole),
    "node_selector": _variables,
    "labels": _variables,
    "restart_policy": _optional(_text),
    "pod_yml": _plain_mapping,
    "key": _optional(_text),
    "operator": _optional(_text),
    "value": _optional(_text),
    "effect": _optional(_text),
    "mount_path": _text,
    "server": _text,
    "path": _text,
    "secret_name": _text,
    "default_mode": _optional(_whole),
    "repository": _text,
    "revision": _text,
    "hostpath_type": _text,
    "use_memory": _flag,
}
_OF_MAPPINGS = (_variables, _plain_mapping)


def checked(spec: ExperimentSpec) -> tuple[ExperimentSpec, tuple[Problem, ...]]:
    """The spec with every wrongly typed value replaced by a harmless one, and a Problem for each of them."""
    checker = _Checker(spec)
    clean = checker.fields(spec, "the experiment")
    processes = tuple(checker.process(each, i, "") for i, each in enumerate(spec.processes))
    groups = tuple(checker.group(each, i) for i, each in enumerate(spec.groups))
    return dataclasses.replace(clean, processes=processes, groups=groups), tuple(checker.problems)


class _Checker:
    """Walks a spec once and gathers what is wrong with its types."""

    def __init__(self, spec: ExperimentSpec) -> None:
        self.problems: list[Problem] = []
        things = [*spec.processes, *spec.groups, *(each for group in spec.groups for each in group.processes)]
        self.names = {each.name for each in things if isinstance(each.name, str)}  # pyright: ignore[reportUnnecessaryIsInstance]

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
            pod=self.pod(process.pod, who, process.at),
        )

    def fields(self, spec: AnySpec, who: str, fallback: str = "experiment") -> AnySpec:
        # What is to be started has a stand-in, so that a wrong type is not reported as missing too.
        stand_ins = {"name": fallback, "command": ("?",), "cmds": ("?",), "image": "?"}
        return self._checked(spec, who, spec.at, stand_ins)

    def services(self, uses: tuple[ServiceUse, ...], who: str, verb: str) -> tuple[ServiceUse, ...]:
        kept: list[ServiceUse] = []
        for use in uses:
            if isinstance(use.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                kept.append(self._checked(use, f"{who}, service {use.name},", lambda _, use=use: use.where))
            else:
                takes = "service names, lists of them, or {name: port}"
                self._report(who, verb, _kind(use.name), takes, use.where)
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

    def part(self, part: AnyPart, who: str, at: Callable[[str], Location], within: str = "") -> AnyPart:
        """The settings of a part; `within` is what stands before their names where their lines were noted."""
        return self._checked(part, who, lambda name: at(f"{within}{name}"))

    def _checked(
        self,
        spec: AnyPart,
        who: str,
        at: Callable[[str], Location],
        stand_ins: Mapping[str, Any] | None = None,
    ) -> AnyPart:
        clean: dict[str, Any] = {}
        for name, default, check in _table(type(spec)):
            value = getattr(spec, name)
            if value is default:
                continue
            try:
                clean[name] = check(value)
            except _WrongTypeError as error:
                place = at(name if error.name is None else part_of(name, error.name))
                self._report(who, f"{name}{error.part}", error.kind or _kind(value), error.takes, place)
                clean[name] = (stand_ins or {}).get(name, {} if check in _OF_MAPPINGS else default)
        return _with(spec, **clean)

    def _report(self, who: str, setting: str, kind: str, takes: str, where: Location) -> None:
        remedy = f"it takes {takes}"
        if kind == "Output":
            # A plain value lies readable in the state: not the way for a password.
            remedy += "; a Pulumi Output is not known before the run: give a plain value, or put a secret"
            remedy += " into a file and name that in Experiment(secrets=[...])"
        self.problems.append(Problem(f"{who} has {setting} of type {kind}", remedy, (where,)))


@cache
def _table(kind: type[Any]) -> tuple[tuple[str, Any, Callable[[Any], Any]], ...]:
    """(name, default, check) of the fields that are checked here; no default is a value no setting has."""
    fields = dataclasses.fields(kind)
    return tuple((each.name, each.default, _CHECKS[each.name]) for each in fields if each.name in _CHECKS)


def _with(spec: AnyPart, **changes: Any) -> AnyPart:
    """The spec itself where nothing changes: most settings of most processes are not made or right."""
    differing = {name: value for name, value in changes.items() if not _same(getattr(spec, name), value)}
    return dataclasses.replace(spec, **differing) if differing else spec


def _same(before: Any, after: Any) -> bool:
    return before is after or (type(before) is tuple and type(after) is tuple and _all_same(before, after))  # pyright: ignore[reportUnknownArgumentType]


def _all_same(before: tuple[Any, ...], after: tuple[Any, ...]) -> bool:
    return len(before) == len(after) and all(map(operator.is_, before, after))
