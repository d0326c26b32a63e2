"""Turns the engine's property values into plain Python and back, secrets and unknowns kept apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from google.protobuf import struct_pb2

_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"
_UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


@dataclass(frozen=True)
class Secret:
    """A value that the engine encrypts in the state and hides on the screen."""

    value: Any


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


# What a preview cannot know yet.
UNKNOWN = _Unknown()


def from_struct(struct: struct_pb2.Struct) -> dict[str, Any]:
    """Nulls are left out, as Kubernetes would; whole numbers become int, which Kubernetes insists on."""
    return {
        key: _from_value(value)
        for key, value in struct.fields.items()
        if value.WhichOneof("kind") != "null_value"
    }


def _from_value(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return UNKNOWN if value.string_value == _UNKNOWN else value.string_value
    if kind == "struct_value":
        fields = from_struct(value.struct_value)
        return Secret(fields.get("value")) if fields.get(_SIGNATURE) == _SECRET else fields
    if kind == "list_value":
        return [_from_value(each) for each in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    return value.bool_value if kind == "bool_value" else None


def to_struct(properties: dict[str, Any]) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    _fill(struct, properties)
    return struct


def _fill(struct: struct_pb2.Struct, properties: dict[str, Any]) -> None:
    for key, value in properties.items():
        _set(struct.fields[key], value)


def _set(slot: struct_pb2.Value, value: Any) -> None:
    if isinstance(value, str):
        slot.string_value = value
    elif isinstance(value, bool):
        slot.bool_value = value
    elif isinstance(value, int | float):
        slot.number_value = value
    elif isinstance(value, dict):
        slot.struct_value.SetInParent()
        _fill(slot.struct_value, value)
    elif isinstance(value, list):
        slot.list_value.SetInParent()
        for each in value:
            _set(slot.list_value.values.add(), each)
    elif isinstance(value, Secret):
        _fill(slot.struct_value, {_SIGNATURE: _SECRET, "value": value.value})
    elif value is UNKNOWN:
        slot.string_value = _UNKNOWN
    else:
        slot.null_value = struct_pb2.NULL_VALUE


def plain(value: Any) -> Any:
    """The same without the marks of secrecy: what the API server is sent."""
    if isinstance(value, Secret):
        return plain(value.value)
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


def has_unknown(value: Any) -> bool:
    if isinstance(value, Secret):
        return has_unknown(value.value)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value is UNKNOWN or any(map(has_unknown, inner))


def mark_like(value: Any, model: Any) -> Any:
    """`value` with everything marked secret that is secret at the same place of `model`."""
    if isinstance(model, Secret):
        return value if isinstance(value, Secret) else Secret(value)
    if isinstance(value, dict) and isinstance(model, dict):
        return {key: mark_like(each, model[key]) if key in model else each for key, each in value.items()}
    if isinstance(value, list) and isinstance(model, list):
        marked = [mark_like(each, like) for each, like in zip(value, model, strict=False)]
        return marked + value[len(marked) :]
    return value
