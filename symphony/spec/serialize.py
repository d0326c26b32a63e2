"""Specs to and from plain dicts, YAML and JSON; a loaded spec equals the one that was dumped."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, cast

from symphony.errors import UserError
from symphony.spec.experiment import ExperimentSpec
from symphony.spec.group import ProcessGroupSpec
from symphony.spec.location import NOWHERE, Location
from symphony.spec.mounts import MOUNT_KINDS, Mount
from symphony.spec.plain import NotPlainError, plain
from symphony.spec.pod import PodSettings, Toleration
from symphony.spec.process import ProcessSpec, Resources
from symphony.spec.services import ServiceUse

FORMAT = 1
_UNSAVED = ("where", "said")
_KIND_OF = {kind: name for name, kind in MOUNT_KINDS.items()}

# Which class a field holds; a list in the file becomes a tuple of that class.
_NESTED: Mapping[str, type[Any]] = {
    "processes": ProcessSpec,
    "groups": ProcessGroupSpec,
    "binds": ServiceUse,
    "connects": ServiceUse,
    "exposes": ServiceUse,
    "resource_request": Resources,
    "resource_limit": Resources,
    "pod": PodSettings,
    "tolerations": Toleration,
}


def dump_dict(spec: ExperimentSpec) -> dict[str, Any]:
    """A dict of plain values; settings that were not made are left out.

    >>> dump_dict(ExperimentSpec("rl", processes=(ProcessSpec("a", cmds=("ls",)),)))
    {'symphony': 1, 'name': 'rl', 'processes': [{'name': 'a', 'cmds': ['ls']}]}
    """
    return {"symphony": FORMAT, **_dump(spec, "experiment")}


def load_dict(data: Mapping[str, Any], where: Location = NOWHERE) -> ExperimentSpec:
    """The spec that dump_dict was given; `where` is the line that everything in it was said on.

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
    saved: dict[str, Any] = {}
    for field in dataclasses.fields(spec):
        value = getattr(spec, field.name)
        if field.name not in _UNSAVED and not _is_default(value, field):
            saved[field.name] = _dump(value, f"{path}.{field.name}")
    return saved


def _is_default(value: Any, field: dataclasses.Field[Any]) -> bool:
    default = _default(field)
    return type(value) is type(default) and bool(value == default)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


class _Loader:
    """Makes specs of plain values; everything is said to have been said at one line, that of the loading."""

    def __init__(self, where: Location) -> None:
        self.where = where

    def load(self, kind: type[Any], data: Any, path: str) -> Any:
        if not isinstance(data, Mapping):
            raise UserError(f"{path} is not a mapping", remedy="Save the experiment again")
        fields = {field.name: field for field in dataclasses.fields(cast("Any", kind))}
        known = ", ".join(sorted(set(fields) - set(_UNSAVED)))
        loaded: dict[str, Any] = {"where": self.where} if "where" in fields else {}
        for name, value in cast("Mapping[str, Any]", data).items():
            if name not in fields or name in _UNSAVED:
                raise UserError(f"{path} has no field {name!r}", remedy=f"It may have: {known}")
            loaded[name] = self.field(fields[name], value, f"{path}.{name}")
        for field in fields.values():
            if field.name not in loaded and _default(field) is dataclasses.MISSING:
                raise UserError(f"{path} lacks the field {field.name!r}", remedy="Add it")
        return kind(**loaded)

    def field(self, field: dataclasses.Field[Any], value: Any, path: str) -> Any:
        nested = _NESTED.get(field.name)
        if nested in (Resources, PodSettings):
            return self.load(nested, value, path)
        many = nested is not None or field.name == "mounts"
        if not isinstance(value, list):
            if many:
                raise UserError(f"{path} is not a list", remedy="Save the experiment again")
            return value
        items = cast("list[Any]", value)
        if field.name == "mounts":
            return tuple(self.mount(each, f"{path}[{i}]") for i, each in enumerate(items))
        if nested is not None:
            return tuple(self.load(nested, each, f"{path}[{i}]") for i, each in enumerate(items))
        return tuple(items)

    def mount(self, data: Any, path: str) -> Mount:
        fields: dict[str, Any] = dict(cast("Mapping[str, Any]", data)) if isinstance(data, Mapping) else {}
        kind = MOUNT_KINDS.get(str(fields.pop("kind", "")))
        if kind is None:
            raise UserError(f"{path} has no known kind", remedy=f"It is one of: {', '.join(MOUNT_KINDS)}")
        return self.load(kind, fields, path)
