"""Specs to and from plain dicts, YAML and JSON; a loaded spec equals the one that was dumped."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from symphony.errors import UserError
from symphony.spec.experiment import ExperimentSpec
from symphony.spec.location import NOWHERE, Location
from symphony.spec.mounts import MOUNT_KINDS, Mount
from symphony.spec.plain import NotPlainError, plain
from symphony.spec.setting import given, settings_of
from symphony.spec.types import ValueType

FORMAT = 1
_KIND_OF = {kind: name for name, kind in MOUNT_KINDS.items()}


def dump_dict(spec: ExperimentSpec) -> dict[str, Any]:
    """A dict of plain values; settings that were not made are left out.

    >>> from symphony.spec.process import ProcessSpec
    >>> dump_dict(ExperimentSpec("rl", processes=(ProcessSpec("a", cmds=("ls",)),)))
    {'symphony': 1, 'name': 'rl', 'processes': [{'name': 'a', 'cmds': ['ls']}]}
    """
    return {"symphony": FORMAT, **_dump(spec, "experiment")}


def load_dict(data: Mapping[str, Any], where: Location = NOWHERE) -> ExperimentSpec:
    """The spec that dump_dict was given; `where` is the line of everything in it.

    UserError: an unknown or missing field, named with its path.
    """
    if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError("a saved experiment is a mapping", remedy="Give what dump_dict returned")
    if data.get("symphony") != FORMAT:
        raise UserError(
            f"this is not a saved experiment of format {FORMAT}: it says symphony: {data.get('symphony')!r}",
            remedy="Save it again with dump_yaml or dump_json",
        )
    fields = {name: value for name, value in data.items() if name != "symphony"}
    return _Loader(where).load(ExperimentSpec, fields, "experiment")


def dump_json(spec: ExperimentSpec) -> str:
    return json.dumps(dump_dict(spec), indent=2)


def load_json(text: str, where: Location = NOWHERE) -> ExperimentSpec:
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"not JSON: {error}", remedy="Save the experiment again") from error
    return load_dict(data, where)


def dump_yaml(spec: ExperimentSpec) -> str:
    import yaml

    data = dump_dict(spec)
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    # The one character that YAML writes as it is and reads as the end of a line.
    return yaml.safe_dump(data, sort_keys=False) if "\x85" in text else text


def load_yaml(text: str, where: Location = NOWHERE) -> ExperimentSpec:
    import yaml

    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UserError(f"not YAML: {' '.join(str(error).split())}", remedy="Save it again") from error
    return load_dict(data, where)


def dump_mount(mount: Mount, path: str = "mount") -> dict[str, Any]:
    """A mount with its kind."""
    return {"kind": _KIND_OF[type(mount)], **_dump_fields(mount, path)}


def _dump(value: Any, path: str) -> Any:
    if isinstance(value, Mount):
        return dump_mount(value, path)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _dump_fields(value, path)
    if isinstance(value, tuple):
        return [_dump(each, f"{path}[{i}]") for i, each in enumerate(cast("tuple[Any, ...]", value))]
    try:
        return plain(value)
    except NotPlainError as error:
        raise UserError(
            f"{path}{error.part} cannot be saved: it is of type {error.kind}", remedy=f"Give {error.takes}"
        ) from None


def _dump_fields(spec: Any, path: str) -> dict[str, Any]:
    return {
        setting.name: _dump(getattr(spec, setting.name), f"{path}.{setting.name}")
        for setting, _ in given(spec)
    }


class _Loader:
    """Makes specs of plain values; the line of everything in them is that of the loading."""

    def __init__(self, where: Location) -> None:
        self.where = where

    def load(self, kind: type[Any], data: Any, path: str) -> Any:
        if not isinstance(data, Mapping):
            raise UserError(f"{path} is not a mapping", remedy="Save the experiment again")
        settings = settings_of(kind)
        has_line = any(field.name == "where" for field in dataclasses.fields(cast("Any", kind)))
        loaded: dict[str, Any] = {"where": self.where} if has_line else {}
        for name, value in cast("Mapping[str, Any]", data).items():
            if name not in settings:
                known = ", ".join(sorted(settings))
                raise UserError(f"{path} has no field {name!r}", remedy=f"It may have: {known}")
            loaded[name] = self.value(settings[name].type, value, f"{path}.{name}")
        for name, setting in settings.items():
            if setting.required and name not in loaded:
                raise UserError(f"{path} lacks the field {name!r}", remedy="Add it")
        return kind(**loaded)

    def value(self, type: ValueType, value: Any, path: str) -> Any:
        if type.instead is not None and isinstance(value, Mapping):
            return self.load(type.instead, value, path)
        if type.part is not None and not type.many:
            return self.load(type.part, value, path)
        if not isinstance(value, list):
            if type.many:
                raise UserError(f"{path} is not a list", remedy="Save the experiment again")
            return value
        items = cast("list[Any]", value)
        if type.part is None:
            return tuple(items)
        load = self.mount if type.part is Mount else partial(self.load, type.part)
        return tuple(load(each, f"{path}[{i}]") for i, each in enumerate(items))

    def mount(self, data: Any, path: str) -> Mount:
        fields: dict[str, Any] = dict(cast("Mapping[str, Any]", data)) if isinstance(data, Mapping) else {}
        kind = MOUNT_KINDS.get(str(fields.pop("kind", "")))
        if kind is None:
            raise UserError(f"{path} has no known kind", remedy=f"Expected one of: {', '.join(MOUNT_KINDS)}")
        return self.load(kind, fields, path)
