"""Registry of the dataclasses and Structs that this process has registered or sent, and so may decode."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

Record = TypeVar("Record")

_registered: dict[str, Any] = {}


def register(record: type[Record]) -> type[Record]:
    """Let values arrive as instances of this dataclass or msgspec Struct; use it as a decorator.

    Field names are checked, field types are not. Raises TypeError for another kind of class.
    """
    if not (dataclasses.is_dataclass(record) or issubclass(record, msgspec.Struct)):
        raise TypeError(f"{record!r} is neither a dataclass nor a msgspec.Struct")
    _registered[record_name(record)] = record
    return record  # pyright: ignore[reportReturnType]


def record_name(record: Any) -> str:
    """Return the name of a class in messages: its module and its qualified name."""
    return f"{record.__module__}:{record.__qualname__}"


def field_names(record: Any) -> tuple[str, ...]:
    """Return the names of the fields of a class, in order."""
    if issubclass(record, msgspec.Struct):
        return record.__struct_fields__
    return tuple(field.name for field in dataclasses.fields(record))


def fields_of(value: object) -> dict[str, object] | None:
    """Return the fields of a dataclass or Struct and register its class; None for other values."""
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if _registered.get(name := record_name(kind)) is not kind:
        if not (dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct)):
            return None
        _registered[name] = kind
    return {name: getattr(value, name) for name in field_names(kind)}


def build(name: str, fields: dict[str, object]) -> object:
    """Return an instance of the named class, or the fields if it is not registered. Raises ValueError."""
    record = _registered.get(name)
    if record is None:
        return fields
    if set(fields) != set(field_names(record)):
        raise ValueError(f"the fields {sorted(fields)} are not those of this program's {name}")
    if issubclass(record, msgspec.Struct):
        return record(**fields)
    not_in_init = {field.name for field in dataclasses.fields(record) if not field.init}  # pyright: ignore[reportUnknownArgumentType]
    construct: Callable[..., Any] = record  # pyright: ignore[reportUnknownVariableType]
    instance = construct(**{name: value for name, value in fields.items() if name not in not_in_init})
    for field in not_in_init:
        object.__setattr__(instance, field, fields[field])
    return instance
