"""Registry of the dataclasses and Structs that messages become: those this process registered or sent."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

Record = TypeVar("Record")

_registered: dict[str, Any] = {}


def register(record: type[Record]) -> type[Record]:
    """Let messages that hold this dataclass or msgspec Struct be rebuilt as it; use it as a decorator.

    Field names are checked, field types are not. Raises TypeError for another kind of class.
    """
    if not (dataclasses.is_dataclass(record) or issubclass(record, msgspec.Struct)):
        raise TypeError(f"{record!r} is neither a dataclass nor a msgspec.Struct")
    _registered[record_name(record)] = record
    return record  # pyright: ignore[reportReturnType]


def record_name(record: Any) -> str:
    """Return the name of a record in messages: its module and its qualified name."""
    return f"{record.__module__}:{record.__qualname__}"


def field_names(record: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass or Struct, in order."""
    if issubclass(record, msgspec.Struct):
        return record.__struct_fields__
    return tuple(field.name for field in dataclasses.fields(record))


def fields_of(value: object) -> dict[str, object] | None:
    """Return the fields of a dataclass or Struct and register its class; None for any other value."""
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if record_name(kind) not in _registered:
        if not (dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct)):
            return None
        _registered[record_name(kind)] = kind
    elif _registered[record_name(kind)] is not kind:
        _registered[record_name(kind)] = kind
    return {name: getattr(value, name) for name in field_names(kind)}


def build(name: str, fields: dict[str, object]) -> object:
    """Return the record of this name, or its fields where no class is registered. Raises ValueError."""
    record = _registered.get(name)
    if record is None:
        return fields
    if set(fields) != set(field_names(record)):
        raise ValueError(f"fields {sorted(fields)} are not those of {name}")
    if issubclass(record, msgspec.Struct):
        return record(**fields)
    late = {field.name for field in dataclasses.fields(record) if not field.init}  # pyright: ignore[reportUnknownArgumentType]
    construct: Callable[..., Any] = record  # pyright: ignore[reportUnknownVariableType]
    built = construct(**{name: value for name, value in fields.items() if name not in late})
    for field in late:
        object.__setattr__(built, field, fields[field])
    return built
