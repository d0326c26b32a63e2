"""Converts specs to plain dicts and back without loss."""

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from symphony.errors import UserError
from symphony.spec.experiment import ExperimentSpec
from symphony.spec.location import NOWHERE, Location
from symphony.spec.pod import MOUNT_KINDS, Mount
from symphony.spec.setting import Setting, explicit_settings, settings_of

FORMAT = 1
_KIND_OF = {kind: name for name, kind in MOUNT_KINDS.items()}


def to_dict(spec: ExperimentSpec) -> dict[str, Any]:
    """Return a spec as plain values, without settings that are at their defaults.

    Raises:
        UserError: A value, such as an Output, cannot be saved.

    >>> from symphony.spec.process import ProcessSpec
    >>> to_dict(ExperimentSpec("rl", processes=(ProcessSpec("a", cmds=("ls",)),)))
    {'symphony': 1, 'name': 'rl', 'processes': [{'name': 'a', 'cmds': ['ls']}]}
    """
    return {"symphony": FORMAT, **_dump(spec, "experiment")}


def from_dict(data: Mapping[str, Any], where: Location = NOWHERE) -> ExperimentSpec:
    """Return the spec that to_dict saved; `where` is the line of everything in it.

    Raises:
        UserError: A field is unknown, missing or of a wrong type; the error names its path.
    """
    if not isinstance(data, Mapping) or data.get("symphony") != FORMAT:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(
            f"this is not a saved experiment of format {FORMAT}",
            where=str(where),
            remedy="Save it again with to_dict() of this version of symphony",
        )
    fields = {name: value for name, value in data.items() if name != "symphony"}
    return _load(ExperimentSpec, fields, "experiment", where)


def dump_mount(mount: Mount, path: str = "mount") -> dict[str, Any]:
    """Return a mount as plain values, with its kind."""
    return {"kind": _KIND_OF[type(mount)], **_dump_fields(mount, path)}


def _dump(value: Any, path: str) -> Any:
    if isinstance(value, Mount):
        return dump_mount(value, path)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _dump_fields(value, path)
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {name: _dump(item, f"{path}.{name}") for name, item in items}
    if isinstance(value, (list, tuple)):
        return [_dump(item, f"{path}[{i}]") for i, item in enumerate(cast("list[Any]", value))]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise UserError(
        f"{path} is of type {type(value).__name__}, which cannot be saved",
        remedy="Remove that setting before you save the experiment",
    )


def _dump_fields(spec: Any, path: str) -> dict[str, Any]:
    return {
        setting.name: _dump(value, f"{path}.{setting.name}") for setting, value in explicit_settings(spec)
    }


def _load(kind: type[Any], data: Any, path: str, where: Location) -> Any:
    if not isinstance(data, Mapping):
        remedy = "Save the experiment again with to_dict()"
        raise UserError(f"{path} is not a mapping", where=str(where), remedy=remedy)
    settings, fields = settings_of(kind), cast("Mapping[str, Any]", data)
    if unknown := [name for name in fields if name not in settings]:
        remedy = f"Use one of: {', '.join(sorted(settings))}"
        raise UserError(f"{path} has the unknown field {unknown[0]!r}", where=str(where), remedy=remedy)
    if missing := [name for name, field in settings.items() if field.required and name not in fields]:
        remedy = "Add it to the saved experiment"
        raise UserError(f"{path} lacks the field {missing[0]!r}", where=str(where), remedy=remedy)
    loaded = {name: _value(settings[name], value, f"{path}.{name}", where) for name, value in fields.items()}
    if any(field.name == "where" for field in dataclasses.fields(cast("Any", kind))):
        loaded["where"] = where
    return kind(**loaded)


def _value(setting: Setting, value: Any, path: str, where: Location) -> Any:
    if setting.part is not None and isinstance(value, Mapping):
        value = _load(setting.part, value, path, where)
    elif setting.part is not None and isinstance(value, list):
        items = enumerate(cast("list[Any]", value))
        value = [_part(setting.part, item, f"{path}[{i}]", where) for i, item in items]
    return setting.convert(value, path)


def _part(kind: type[Any], data: Any, path: str, where: Location) -> Any:
    if kind is not Mount or not isinstance(data, Mapping):
        return _load(kind, data, path, where)
    fields = dict(cast("Mapping[str, Any]", data))
    kind_name = str(fields.pop("kind", ""))
    if (mount := MOUNT_KINDS.get(kind_name)) is None:
        what = f"{path} has the unknown kind {kind_name!r}" if kind_name else f"{path} lacks the field 'kind'"
        remedy = f"Give one of: {', '.join(MOUNT_KINDS)}"
        raise UserError(what, where=str(where), remedy=remedy)
    return _load(mount, fields, path, where)
