"""Reads the user's price file, which replaces the list prices."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from symphony.errors import UserError
from symphony.files import read_source
from symphony.placement.machines import GPU_TYPES, gpu_type_of
from symphony.placement.pool import LIST_PRICES, Prices, Rates
from symphony.plan.names import nearest

KEY = "symphony:prices"
_Price = Annotated[float, Meta(ge=0, lt=1e6)]


class _Rates(msgspec.Struct, forbid_unknown_fields=True):
    """Dollars an hour: a machine by its type, [vCPU, GiB] by family, a GPU by its type."""

    machines: dict[str, _Price | Annotated[list[_Price], Meta(min_length=1, max_length=2)]] = {}
    gpus: dict[str, _Price] = {}


class _PriceFile(msgspec.Struct, forbid_unknown_fields=True):
    date: str | int = "?"
    region: str = "?"
    on_demand: _Rates = msgspec.field(default_factory=_Rates)
    spot: _Rates = msgspec.field(default_factory=_Rates)


def read(name: str | None, folder: Path) -> Prices:
    """Return the prices in a file, relative to the project's folder; without a file, the list prices.

    Raises:
        UserError: The file cannot be read, or a field is wrong.
    """
    if name is None:
        return LIST_PRICES
    file = folder / Path(name).expanduser()
    try:
        table = msgspec.yaml.decode(read_source(file), type=_PriceFile)
    except OSError as error:
        raise _wrong(file, f"cannot be read: {(error.strerror or str(error)).lower()}") from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _wrong(file, f"is not a price list: {' '.join(str(error).split()):.200}") from None
    return Prices(str(table.date), table.region, _rates(file, table.on_demand), _rates(file, table.spot))


def _rates(file: Path, table: _Rates) -> Rates:
    machines = {
        name: tuple(price) if isinstance(price, list) else (price,) for name, price in table.machines.items()
    }
    # Unknown machine types and GPUs (nvidia-...) may be newer than the list prices; other unknown names are
    # mistakes.
    _refuse_unknown(file, (name for name in machines if "-" not in name), LIST_PRICES.on_demand.machines)
    gpus = {gpu_type_of(name): price for name, price in table.gpus.items()}
    not_new = (name for name in gpus if not name.startswith("nvidia-") or name.startswith("nvidia-tesla-"))
    _refuse_unknown(file, not_new, GPU_TYPES)
    return Rates(machines, gpus)


def _refuse_unknown(file: Path, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            near = nearest(name, known)
            hint = f", did you mean {near}?" if near else ""
            raise _wrong(file, f"has the unknown entry {name!r:.40}{hint}")


def _wrong(file: Path, what: str) -> UserError:
    return UserError(f"the price file {file.name} {what}", where=KEY, remedy="docs/gke.md shows the format")
