"""The prices that a user gives in a file, in place of the list prices."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from symphony.errors import UserError
from symphony.placement.prices import LIST_PRICES, Prices, Rates

_KEY = "symphony:prices"


def read(given: str | None, folder: Path) -> Prices:
    """Those of the file, whose path is relative to the folder of the project; without one the list prices.

    UserError: it cannot be read, or the field that is wrong.
    """
    if given is None:
        return LIST_PRICES
    # Few have prices of their own.
    import yaml

    file = folder / Path(given).expanduser()
    try:
        data = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError) as error:
        why = (getattr(error, "strerror", None) or "it is no text").lower()
        raise _wrong(file, f"cannot be read: {why}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise _wrong(file, f"is no YAML: {' '.join(str(error).split()):.100}") from None
    fields = _mapping(file, "the file", data)
    rates = {kind: _rates(file, kind, fields.get(kind)) for kind in ("on_demand", "spot")}
    return Prices(str(fields.get("date", "?")), str(fields.get("region", "?")), **rates)


def _rates(file: Path, kind: str, given: object) -> Rates:
    fields = _mapping(file, kind, given or {})
    machines: dict[str, tuple[float, ...]] = {}
    for name, value in _mapping(file, f"{kind}.machines", fields.get("machines") or {}).items():
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        if len(values) not in (1, 2) or not all(map(_is_price, values)):
            takes = "the price of a machine, or [price of a vCPU, price of a GiB]"
            raise _wrong(file, f"says {value!r:.40} in {kind}.machines.{name}, which takes {takes}")
        machines[str(name)] = tuple(map(float, values))
    gpus = _mapping(file, f"{kind}.gpus", fields.get("gpus") or {})
    for name, value in gpus.items():
        if not _is_price(value):
            raise _wrong(file, f"says {value!r:.40} in {kind}.gpus.{name}, which takes a price")
    return Rates(machines, {str(name): float(value) for name, value in gpus.items()})


def _is_price(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e6


def _mapping(file: Path, name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(file, f"says in {name} {value!r:.40}, which is no mapping")
    return cast("Mapping[str, Any]", value)


def _wrong(file: Path, what: str) -> UserError:
    return UserError(f"{file.name} {what}", where=_KEY, remedy="See docs/gke.md for what it holds")
