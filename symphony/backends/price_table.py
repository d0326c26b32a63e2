"""The prices that a user gives in a file, in place of the list prices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from symphony.errors import UserError
from symphony.placement.machines import GPU_TYPES, gpu_type_of
from symphony.placement.prices import LIST_PRICES, Prices, Rates
from symphony.plan.names import nearest

KEY = "symphony:prices"
_KINDS = ("on_demand", "spot")
# Of those that are newer than the list prices, machine types and GPUs are priced by their whole names.
_FAMILIES = (*LIST_PRICES.on_demand.machines,)


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
        why = (getattr(error, "strerror", None) or "it is not UTF-8 text").lower()
        raise _wrong(file, f"cannot be read: {why}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise _wrong(file, f"is not valid YAML: {' '.join(str(error).split()):.100}") from None
    fields = _mapping(file, "the file", data)
    _known(file, "the file", fields, ("date", "region", *_KINDS))
    rates = {kind: _rates(file, kind, fields.get(kind)) for kind in _KINDS}
    return Prices(str(fields.get("date", "?")), str(fields.get("region", "?")), **rates)


def _rates(file: Path, kind: str, given: object) -> Rates:
    fields = _mapping(file, kind, given or {})
    _known(file, kind, fields, ("machines", "gpus"))
    machines: dict[str, tuple[float, ...]] = {}
    for name, value in _mapping(file, f"{kind}.machines", fields.get("machines") or {}).items():
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        if len(values) not in (1, 2) or not all(map(_is_price, values)):
            takes = "the price of a machine, or [price of a vCPU, price of a GiB]"
            raise _wrong(file, f"says {value!r:.40} in {kind}.machines.{name}, which takes {takes}")
        machines[str(name)] = tuple(map(float, values))
    _known(file, f"{kind}.machines", [each for each in machines if "-" not in each], _FAMILIES)
    given = _mapping(file, f"{kind}.gpus", fields.get("gpus") or {})
    gpus = {gpu_type_of(str(name)): value for name, value in given.items()}
    old = [each for each in gpus if not each.startswith("nvidia-") or each.startswith("nvidia-tesla-")]
    _known(file, f"{kind}.gpus", old, GPU_TYPES)
    for name, value in gpus.items():
        if not _is_price(value):
            raise _wrong(file, f"says {value!r:.40} in {kind}.gpus.{name}, which takes a price")
    return Rates(machines, {name: float(value) for name, value in gpus.items()})


def _known(file: Path, place: str, names: Iterable[object], known: tuple[str, ...]) -> None:
    """UserError: one of the names means nothing there."""
    for name in map(str, names):
        if name not in known:
            near = nearest(name, known)
            takes = f"did you mean {near}?" if near else f"expected one of {', '.join(known)}"
            raise _wrong(file, f"says {name!r:.40} in {place}, which is unknown: {takes}")


def _is_price(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e6


def _mapping(file: Path, name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(file, f"says in {name} {value!r:.40}, which is not a mapping")
    return cast("Mapping[str, Any]", value)


def _wrong(file: Path, what: str) -> UserError:
    return UserError(f"{file.name} {what}", where=KEY, remedy="See docs/gke.md for what it holds")
