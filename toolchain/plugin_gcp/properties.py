"""Property values of the engine as plain Python values, and their differences."""

from collections.abc import Iterator
from typing import Any

from google.protobuf import json_format, struct_pb2
from pulumi.runtime import rpc


def from_struct(struct: struct_pb2.Struct) -> dict[str, Any]:
    """Return the fields without nulls; whole numbers become int, as the messages of GKE need them."""
    return _decoded(json_format.MessageToDict(struct))


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _decoded(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def to_struct(properties: dict[str, Any]) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update(properties)
    return struct


def plain(value: Any) -> Any:
    """Return the value with secrets unwrapped."""
    value = rpc.unwrap_rpc_secret(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def changed_paths(old: Any, new: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every difference between old and new inputs.

    Lists of different lengths differ as a whole.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from changed_paths(old.get(key), new.get(key), (*path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from changed_paths(before, after, (*path, index))
    elif old != new:
        yield path


def path_text(path: tuple[str | int, ...]) -> str:
    """Return a path as the engine writes it: nodeConfig.taints[0].key."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
