"""Property values of the engine as plain Python values, and their differences."""

from collections.abc import Iterator
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


# Stands for a value that a preview cannot know yet.
UNKNOWN = _Unknown()


def from_struct(struct: struct_pb2.Struct) -> dict[str, Any]:
    """Return the fields without nulls; whole numbers become int, as the messages of GKE need them."""
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
        return [_from_value(item) for item in value.list_value.values]
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
        for item in value:
            _set(slot.list_value.values.add(), item)
    elif isinstance(value, Secret):
        _fill(slot.struct_value, {_SIGNATURE: _SECRET, "value": value.value})
    elif value is UNKNOWN:
        slot.string_value = _UNKNOWN
    else:
        slot.null_value = struct_pb2.NULL_VALUE


def plain(value: Any) -> Any:
    """Return the value with secrets unwrapped."""
    if isinstance(value, Secret):
        return plain(value.value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def changed_paths(old: Any, new: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every difference between old and new inputs."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from changed_paths(old.get(key), new.get(key), (*path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from changed_paths(before, after, (*path, index))
    elif new is UNKNOWN or old != new:
        yield path


def path_text(path: tuple[str | int, ...]) -> str:
    """Return a path as the engine writes it: nodeConfig.taints[0].key."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
