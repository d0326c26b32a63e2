"""The services a process binds, connects to or exposes, as the user wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from symphony.spec import setting, types
from symphony.spec.location import NOWHERE, Location
from symphony.spec.plain import DEEPEST

# A name, names, or names with their ports.
Services = str | Sequence[str] | Mapping[str, int | None]


@dataclass(frozen=True)
class ServiceUse:
    """One service named by one process; port None leaves the choice to the plan.

    name and port are what the user wrote, right or wrong: plan/ judges them.
    """

    name: str = field(metadata=setting.metadata(types.TEXT))
    port: int | None = setting.setting(types.WHOLE_NUMBER)
    where: Location = field(default=NOWHERE, compare=False)


def read_services(given: tuple[Any, ...], where: Location) -> tuple[ServiceUse, ...]:
    """Flatten what `binds`, `connects` and `exposes` accept: names, lists of names, mappings name -> port.

    >>> [use.name for use in read_services(("a", ["b"], {"c": 6006}), NOWHERE)]
    ['a', 'b', 'c']
    """
    return tuple(_read(given, where, 0))


def _read(item: Any, where: Location, depth: int) -> Iterator[ServiceUse]:
    if depth > DEEPEST:
        yield ServiceUse(item, None, where)
    elif isinstance(item, Mapping):
        for name, port in cast("Mapping[Any, Any]", item).items():
            yield ServiceUse(name, port, where)
    elif isinstance(item, (list, tuple)):
        for each in cast("Iterable[Any]", item):
            yield from _read(each, where, depth + 1)
    elif isinstance(item, (set, frozenset)):
        for each in sorted(cast("Iterable[Any]", item), key=str):
            yield from _read(each, where, depth + 1)
    else:
        yield ServiceUse(item, None, where)
