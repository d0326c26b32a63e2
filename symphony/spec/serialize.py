"""Specs to and from plain dicts, YAML and JSON; a loaded spec equals the one that was dumped."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from symphony.errors import UserError
from symphony.spec.experiment import ExperimentSpec
from symphony.spec.group import ProcessGroupSpec
from symphony.spec.mounts import MOUNT_KINDS, Mount
from symphony.spec.pod import PodSettings, Toleration
from symphony.spec.process import ProcessSpec, Resources
from symphony.spec.services import ServiceUse

FORMAT = 1
_UNSAVED = ("where", "said")
_KIND_OF = {kind: name for name, kind in MOUNT_KINDS.items()}
_Spec = TypeVar("_Spec")

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
    return {"symphony": FORMAT, **_dump(spec)}


def load_dict(data: Mapping[str, Any]) -> ExperimentSpec:
    """The spec that dump_dict was given. UserError: an unknown or missing field, named with its path."""
    if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError("a saved experiment is a mapping", remedy="Give what dump_dict returned")
    if data.get("symphony") != FORMAT:
        raise UserError(
            f"this is not a saved experiment of format {FORMAT}: it says symphony: {data.get('symphony')!r}",
            remedy="Save it again with dump_yaml or dump_json",
        )
    return _load(ExperimentSpec, {k: v for k, v in data.items() if k != "symphony"}, "experiment")


def dump_json(spec: ExperimentSpec) -> str:
    return json.dumps(dump_dict(spec), indent=2)


def load_json(text: str) -> ExperimentSpec:
    try:
        return load_dict(json.loads(text))
    except json.JSONDecodeError as error:
        raise UserError(f"not JSON: {error}", remedy="Save the experiment again") from error


def dump_yaml(spec: ExperimentSpec) -> str:
    import yaml

    return yaml.safe_dump(dump_dict(spec), sort_keys=False, allow_unicode=True)


def load_yaml(text: str) -> ExperimentSpec:
    import yaml

    try:
        return load_dict(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise UserError(f"not YAML: {' '.join(str(error).split())}", remedy="Save it again") from error


def _dump(value: Any) -> Any:
    if isinstance(value, Mount):
        return {"kind": _KIND_OF[type(value)], **_dump_fields(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _dump_fields(value)
    if isinstance(value, Mapping):
        return {key: _dump(each) for key, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_dump(each) for each in cast("list[Any]", value)]
    return value


def _dump_fields(spec: Any) -> dict[str, Any]:
    saved: dict[str, Any] = {}
    for field in dataclasses.fields(spec):
        value = getattr(spec, field.name)
        if field.name not in _UNSAVED and value != _default(field):
            saved[field.name] = _dump(value)
    return saved


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _load(kind: type[_Spec], data: Any, path: str) -> _Spec:
    if not isinstance(data, Mapping):
        raise UserError(f"{path} is not a mapping", remedy="Save the experiment again")
    fields = {field.name: field for field in dataclasses.fields(cast("Any", kind))}
    loaded: dict[str, Any] = {}
    for name, value in cast("Mapping[str, Any]", data).items():
        if name not in fields or name in _UNSAVED:
            known = ", ".join(sorted(set(fields) - set(_UNSAVED)))
            raise UserError(f"{path} has no field {name!r}", remedy=f"It may have: {known}")
        loaded[name] = _load_field(name, value, f"{path}.{name}")
    try:
        return kind(**loaded)
    except TypeError as error:
        missing = str(error).partition(") ")[2] or str(error)
        raise UserError(f"{path}: {missing}", remedy="Add the field") from error


def _load_field(name: str, value: Any, path: str) -> Any:
    if name == "mounts" and isinstance(value, list):
        return tuple(_load_mount(each, f"{path}[{i}]") for i, each in enumerate(cast("list[Any]", value)))
    nested = _NESTED.get(name)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return tuple(_load(nested, each, f"{path}[{i}]") if nested else each for i, each in enumerate(items))
    return _load(nested, value, path) if nested else value


def _load_mount(data: Any, path: str) -> Mount:
    fields: dict[str, Any] = dict(cast("Mapping[str, Any]", data)) if isinstance(data, Mapping) else {}
    kind = MOUNT_KINDS.get(fields.pop("kind", ""))
    if kind is None:
        raise UserError(f"{path} has no known kind", remedy=f"It is one of: {', '.join(MOUNT_KINDS)}")
    return _load(kind, fields, path)
