"""Settings: the fields of specs that a program gives, each with the converter of its values.

A new setting is a field in the class that it belongs to, a line in the options beside that class where it is
a keyword, the backend that renders it, and its name in the row of that backend.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from symphony.spec.convert import Converter

_KEY = "setting"
_REQUIRED: Any = object()


@dataclass(frozen=True)
class Setting:
    """A setting.

    Attributes:
        name: The name of the field.
        convert: Returns a value of the setting's type, or raises WrongTypeError.
        default: The value of a setting that the program does not give.
        keyword: Whether it is a keyword where its owner is declared.
        varies: Whether only some backends use it; these name it in their rows.
        part: The class of its value, or of the items of its value, where that has settings of its own.
    """

    name: str
    convert: Converter
    default: Any = _REQUIRED
    keyword: bool = False
    varies: bool = False
    part: type[Any] | None = None

    @property
    def required(self) -> bool:
        return self.default is _REQUIRED


def setting(convert: Converter, default: Any = None, **more: Any) -> Any:
    """Return a field that is a setting."""
    about = {_KEY: {"convert": convert, "default": default, **more}}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict[str, Any], metadata=about)
    return dataclasses.field(default=default, metadata=about)


def required(convert: Converter) -> Any:
    """Return a field that is a setting without a default."""
    return dataclasses.field(metadata={_KEY: {"convert": convert}})


@cache
def settings_of(kind: type[Any]) -> Mapping[str, Setting]:
    """Return the settings of a class by name, in the order of its fields."""
    return {
        field.name: Setting(field.name, **field.metadata[_KEY])
        for field in dataclasses.fields(kind)
        if _KEY in field.metadata
    }


def made_settings(spec: Any) -> Iterator[tuple[Setting, Any]]:
    """Yield the settings of a spec that differ from their defaults, with their values."""
    for made in settings_of(cast("type[Any]", type(spec))).values():
        value = getattr(spec, made.name)
        if made.required or value != made.default:
            yield made, value


class Checked:
    """A dataclass whose settings are converted when it is made."""

    def __post_init__(self) -> None:
        for name, checked in settings_of(type(self)).items():
            object.__setattr__(self, name, checked.convert(getattr(self, name), name))
