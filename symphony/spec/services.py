"""The services a process binds, connects to or exposes, as the user wrote them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from symphony.spec.convert import NUMBER, strict_text, wrong_type
from symphony.spec.location import NOWHERE, Location, caller
from symphony.spec.setting import Checked, required, setting

# A name, names, or names with their ports.
Services = str | Sequence[str | Mapping[str, int | None]] | Mapping[str, int | None]


@dataclass(frozen=True)
class ServiceUse(Checked):
    """One service named by one process; port None leaves the choice to the plan."""

    name: str = required(strict_text)
    port: int | None = setting(NUMBER)
    where: Location = field(default=NOWHERE, compare=False)


def services(value: Any, setting: str) -> tuple[ServiceUse, ...]:
    """Return the services in a name, a list of names, or a mapping of names to ports, or in lists of these.

    >>> [(use.name, use.port) for use in services(("a", ["b"], {"c": 6006}), "binds")]
    [('a', None), ('b', None), ('c', 6006)]
    """
    return tuple(_read(value, setting, caller()))


def _read(value: Any, setting: str, where: Location) -> Iterator[ServiceUse]:
    if isinstance(value, ServiceUse):
        yield value
    elif isinstance(value, str):
        yield ServiceUse(value, None, where)
    elif isinstance(value, Mapping):
        for name, port in cast("Mapping[Any, Any]", value).items():
            yield ServiceUse(name, port, where)
    elif isinstance(value, (list, tuple)):
        for each in cast("Sequence[Any]", value):
            yield from _read(each, setting, where)
    elif isinstance(value, (set, frozenset)):
        for name in sorted(cast("set[Any]", value), key=str):
            yield from _read(name, setting, where)
    else:
        raise wrong_type(setting, value, "service names, lists of them, or {name: port}")
