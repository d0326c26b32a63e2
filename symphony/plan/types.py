"""Wrong types found and taken out, so that every other rule can trust the types; build_plan calls it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

from symphony.plan.problems import Problem
from symphony.spec.experiment import ExperimentSpec
from symphony.spec.group import ProcessGroupSpec
from symphony.spec.location import Location
from symphony.spec.mounts import Mount
from symphony.spec.pod import PodSettings, Toleration
from symphony.spec.process import ProcessSpec, Resources
from symphony.spec.services import ServiceUse

_Spec = TypeVar("_Spec", ExperimentSpec, ProcessGroupSpec, ProcessSpec)


class _WrongTypeError(Exception):
    """A value is not of the type its setting takes; the text says what it takes."""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _WrongTypeError("text")
    return value


def _number_or_text(value: Any) -> str | int | float:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise _WrongTypeError("a number or text")
    return value


def _as_text(value: Any) -> str:
    return str(_number_or_text(value))


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _WrongTypeError("a whole number")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _WrongTypeError("True or False")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise _WrongTypeError("a list of texts (or text with balanced quotes)")
    if not isinstance(value, (list, tuple)):
        raise _WrongTypeError("a list of texts")
    try:
        return tuple(_as_text(each) for each in cast("list[Any]", value))
    except _WrongTypeError:
        raise _WrongTypeError("a list of texts and numbers") from None


def _variables(value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise _WrongTypeError("a mapping from names to texts")
    items = cast("Mapping[Any, Any]", value).items()
    try:
        return {_text(name): str(each) if isinstance(each, bool) else _as_text(each) for name, each in items}
    except _WrongTypeError:
        raise _WrongTypeError("a mapping from names to texts and numbers") from None


def _plain_mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _WrongTypeError("a mapping")
    return cast("Mapping[str, Any]", value)


def _port_range(value: Any) -> tuple[int, int]:
    pair = tuple(cast("list[Any]", value)) if isinstance(value, (list, tuple, range)) else ()
    if isinstance(value, range) or len(pair) > 2:
        pair = (min(pair), max(pair)) if pair else ()
    if (
        len(pair) != 2
        or not all(type(each) is int and 1 <= each <= 65535 for each in pair)
        or pair[0] > pair[1]
    ):
        raise _WrongTypeError("two ports, the first and the last")
    return pair


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


def checked(spec: ExperimentSpec) -> tuple[ExperimentSpec, tuple[Problem, ...]]:
    """The spec with every wrongly typed value replaced by a harmless one, and a Problem for each of them."""
    checker = _Checker()
    clean = checker.fields(spec, "the experiment")
    processes = tuple(checker.process(each, i, "") for i, each in enumerate(spec.processes))
    groups = tuple(checker.group(each, i) for i, each in enumerate(spec.groups))
    return dataclasses.replace(clean, processes=processes, groups=groups), tuple(checker.problems)


class _Checker:
    """Walks a spec once and gathers what is wrong with its types."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def group(self, group: ProcessGroupSpec, index: int) -> ProcessGroupSpec:
        name = group.name if isinstance(group.name, str) else f"group-{index}"  # pyright: ignore[reportUnnecessaryIsInstance]
        who = f"process group {name}"
        clean = self.fields(group, who, fallback=name)
        return dataclasses.replace(
            clean,
            processes=tuple(self.process(each, i, f"{name}/") for i, each in enumerate(group.processes)),
            mounts=self.mounts(group.mounts, who),
            pod=self.pod(group.pod, who, group.at("pod")),
        )

    def process(self, process: ProcessSpec, index: int, prefix: str) -> ProcessSpec:
        name = process.name if isinstance(process.name, str) else f"process-{index}"  # pyright: ignore[reportUnnecessaryIsInstance]
        who = f"{prefix}{name}"
        clean = self.fields(process, who, fallback=name)
        return dataclasses.replace(
            clean,
            **{
                verb: self.services(getattr(process, verb), who, verb)
                for verb in ("binds", "connects", "exposes")
            },
            resource_request=self.part(process.resource_request, who, process.at("resource_request")),
            resource_limit=self.part(process.resource_limit, who, process.at("resource_limit")),
            mounts=self.mounts(process.mounts, who),
            pod=self.pod(process.pod, who, process.at("pod")),
        )

    def fields(self, spec: _Spec, who: str, fallback: str = "experiment") -> _Spec:
        changed = dict(self._checked(spec, who, spec.at, {"name": fallback}))
        return dataclasses.replace(spec, **changed)

    def services(self, uses: tuple[ServiceUse, ...], who: str, verb: str) -> tuple[ServiceUse, ...]:
        kept: list[ServiceUse] = []
        for use in uses:
            if not isinstance(use.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                self._report(who, verb, use.name, "service names, lists of them, or {name: port}", use.where)
                continue
            port = dict(
                self._checked(use, f"{who}, service {use.name},", lambda _, w=use.where: w, {"name": ""})
            )
            kept.append(dataclasses.replace(use, **port))
        return tuple(kept)

    def mounts(self, mounts: tuple[Mount, ...], who: str) -> tuple[Mount, ...]:
        kept: list[Mount] = []
        for mount in mounts:
            before = len(self.problems)
            named = {"name": "mount"} if mount.name is not None else {"name": None}
            fields = dict(self._checked(mount, who, lambda _, w=mount.where: w, named, skip_none="name"))
            if len(self.problems) == before:
                kept.append(dataclasses.replace(mount, **fields))
        return tuple(kept)

    def pod(self, pod: PodSettings, who: str, where: Location) -> PodSettings:
        tolerations = tuple(self.part(each, who, where) for each in pod.tolerations)
        return dataclasses.replace(self.part(pod, who, where), tolerations=tolerations)

    def part(self, part: Any, who: str, where: Location) -> Any:
        assert isinstance(part, (Resources, PodSettings, Toleration))
        return dataclasses.replace(part, **dict(self._checked(part, who, lambda _: where, {})))

    def _checked(
        self,
        spec: Any,
        who: str,
        at: Callable[[str], Location],
        fallbacks: Mapping[str, Any],
        skip_none: str = "",
    ) -> Iterator[tuple[str, Any]]:
        for field in dataclasses.fields(spec):
            check = _CHECKS.get(field.name)
            value = getattr(spec, field.name)
            if check is None or (field.name == skip_none and value is None):
                continue
            try:
                yield field.name, check(value)
            except _WrongTypeError as error:
                self._report(who, field.name, value, str(error), at(field.name))
                yield field.name, fallbacks.get(field.name, _default(field))

    def _report(self, who: str, setting: str, value: Any, takes: str, where: Location) -> None:
        kind = type(value).__name__ if value is not None else "None"
        remedy = f"it takes {takes}"
        if kind == "Output":
            remedy += "; a Pulumi Output is not known before the run, so give a plain value"
        self.problems.append(Problem(f"{who} has {setting} of type {kind}", remedy, (where,)))


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default
