"""Settings: the fields of a spec that users set, with their converters and defaults.

To add one: a field in its class, a line in the options beside that class if it is a keyword, code in the
backend that renders it, and its name in that backend's row.
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
    """A field of a spec that users set.

    Attributes:
        name: The name of the field.
        convert: Returns a value of the setting's type, or raises WrongTypeError.
        default: The value of a setting that the program does not set.
        keyword: Whether `new_process` and its like take it as a keyword.
        varies: Whether only some backends use it; they name it in their rows.
        part: The class of its value, or of the items in its value, if that class has settings itself.
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
    """Return a dataclass field that is a setting."""
    metadata = {_KEY: {"convert": convert, "default": default, **more}}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict[str, Any], metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def required(convert: Converter) -> Any:
    """Return a dataclass field that is a setting without a default."""
    return dataclasses.field(metadata={_KEY: {"convert": convert}})


@cache
def settings_of(kind: type[Any]) -> Mapping[str, Setting]:
    """Return the settings of a class by name, in the order of its fields."""
    return {
        field.name: Setting(field.name, **field.metadata[_KEY])
        for field in dataclasses.fields(kind)
        if _KEY in field.metadata
    }


def explicit_settings(spec: Any) -> Iterator[tuple[Setting, Any]]:
    """Yield the settings of a spec that differ from their defaults, with their values."""
    for name, spec_setting in settings_of(cast("type[Any]", type(spec))).items():
        value = getattr(spec, name)
        if spec_setting.required or value != spec_setting.default:
            yield spec_setting, value


class Checked:
    """Base of dataclasses that convert their settings when they are created."""

    def __post_init__(self) -> None:
        for name, spec_setting in settings_of(type(self)).items():
            object.__setattr__(self, name, spec_setting.convert(getattr(self, name), name))
