"""Property values of the engine as plain Python values, and their differences."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format, struct_pb2

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
    return _decoded(json_format.MessageToDict(struct))


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        fields = {key: _decoded(item) for key, item in value.items() if item is not None}
        return Secret(fields.get("value")) if fields.get(_SIGNATURE) == _SECRET else fields
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return UNKNOWN if value == _UNKNOWN else value


def to_struct(properties: dict[str, Any]) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update(_encoded(properties))
    return struct


def _encoded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _encoded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_encoded(item) for item in value]
    if isinstance(value, Secret):
        return {_SIGNATURE: _SECRET, "value": _encoded(value.value)}
    return _UNKNOWN if value is UNKNOWN else value


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
