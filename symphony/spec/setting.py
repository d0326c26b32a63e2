"""What a field of a spec says of its setting: type, keyword, calls.

A new setting is a field in the class of what it is of, a line in the options beside it where it is a keyword,
the backend that renders it, and its name in the row of that backend.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, cast

from symphony.spec.types import ValueType

_KEY = "setting"


@dataclass(frozen=True)
class Setting:
    """A setting.

    name:     the field's.
    type:     what it takes, and how that is checked.
    keywords: by which it is given where a thing is declared, the usual one first; none: by calls only.
    calls:    by which it is given afterwards.
    varies:   some backends use it, and say so in their rows; else each does, or it would be no backend.
    stand_in: what stands there for a value of a wrong type, so that it is not reported as missing too.
    required: it has to be given.
    """

    name: str
    type: ValueType
    keywords: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    varies: bool = False
    stand_in: Any = None
    required: bool = False

    def is_made(self, value: Any) -> bool:
        """Whether this value is one that somebody gave."""
        if self.required or value is self._empty:
            return self.required
        return type(value) is not type(self._empty) or bool(value != self._empty)

    @cached_property
    def _empty(self) -> Any:
        return self.type.empty()


def setting(
    type: ValueType,
    *,
    keyword: bool = False,
    aliases: tuple[str, ...] = (),
    calls: tuple[str, ...] = (),
    varies: bool = False,
    stand_in: Any = None,
) -> Any:
    """A field that is a setting; the value of one that was not made is its type's empty one."""
    about = metadata(type, keyword=keyword, aliases=aliases, calls=calls, varies=varies, stand_in=stand_in)
    empty = type.empty()
    if isinstance(empty, dict):
        return dataclasses.field(default_factory=type.empty, metadata=about)
    return dataclasses.field(default=empty, metadata=about)


def metadata(type: ValueType, **more: Any) -> dict[str, Any]:
    """What makes a field a setting; `setting` says the rest of a field that need not be given."""
    return {_KEY: {"type": type, **more}}


@cache
def settings_of(kind: type[Any]) -> Mapping[str, Setting]:
    """name -> setting of a class, in the order of its fields."""
    return {
        field.name: _setting(field, **field.metadata[_KEY])
        for field in dataclasses.fields(kind)
        if _KEY in field.metadata
    }


def _setting(
    field: dataclasses.Field[Any], *, keyword: bool = False, aliases: tuple[str, ...] = (), **more: Any
) -> Setting:
    required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    return Setting(field.name, keywords=(field.name, *aliases) if keyword else (), required=required, **more)


@cache
def keywords_of(kind: type[Any]) -> Mapping[str, Setting]:
    """keyword -> the setting that it gives where a thing of this class is declared."""
    return {keyword: each for each in settings_of(kind).values() for keyword in each.keywords}


def given(thing: Any) -> Iterator[tuple[Setting, Any]]:
    """The settings that were made of a thing, with their values."""
    for each in settings_of(cast("type[Any]", type(thing))).values():
        value = getattr(thing, each.name)
        if each.is_made(value):
            yield each, value
