"""The plan of a cluster as a table: its pools, their changes, the price of their machines."""

from __future__ import annotations

from collections.abc import Iterator

from symphony.cli import screen
from symphony.operations.cluster import ClusterEnded, ClusterPlanned
from symphony.placement.pool import Pool
from symphony.placement.prices import Prices
from symphony.plan.problems import count

HEAD = ("", "pool", "change", "machine type", "GPUs", "machines", "$/h each", "zones", "why")
_MARKS = {"create": "+", "update": "~", "replace": "!", "delete": "-", "keep": ""}
_STYLES = {"create": "green", "update": "yellow", "replace": "yellow", "delete": "red", "keep": "dim"}
_WORDS = ("create", "update", "replace", "delete")


def show(planned: ClusterPlanned) -> None:
    """Print the pools, and below them the number of changes and the price."""
    cluster = planned.cluster
    place = f"{cluster.location}, project {cluster.project}"
    print(screen.clean(f"{planned.stack}: the cluster {cluster.name} on GKE, {place}"))
    rows = list(_rows(planned))
    screen.show_table(HEAD, rows, right=(6,), row_styles=[_STYLES[row[2]] for row in rows])
    print(screen.clean(f"{_total(planned)} {_cost(planned.pools, planned.prices)}"))


def ended(event: ClusterEnded) -> str:
    """Return the line that tells that a cluster is up."""
    pools = count(len(event.cluster.pools), "node pool")
    use = f"experiments use it with `symphony:cluster: {event.stack}`"
    return f"{event.stack} is up: the cluster {event.cluster.name}, {pools}, in {event.seconds:.1f} s; {use}."


def _rows(planned: ClusterPlanned) -> Iterator[tuple[str, ...]]:
    for pool in planned.pools:
        change = planned.of_pool(pool.name)
        kind = change.kind if change else "keep"
        yield _MARKS[kind], pool.name, kind, *_facts(pool, planned.prices), change.why if change else ""
    for change in planned.changes:
        if change.kind in ("update", "replace") and not change.is_pool:
            what = f"{change.type.rpartition(':')[2]} {change.name}"
            yield _MARKS[change.kind], what, change.kind, "", "", "", "", "", change.why
    declared = {f"{planned.cluster.name}-{pool.name}" for pool in planned.pools}
    for change in planned.changes:
        if change.kind == "delete" and change.is_pool and change.name not in declared:
            name = change.name.removeprefix(f"{planned.cluster.name}-")
            yield _MARKS["delete"], name, "delete", "", "", "", "", "", "no longer declared"


def _facts(pool: Pool, prices: Prices) -> tuple[str, str, str, str, str]:
    gpus = f"{pool.gpus} {pool.gpu_type}" if pool.gpus else ""
    machines = f"{pool.min}-{pool.max}{' spot' if pool.spot else ''}"
    return pool.machine_type, gpus, machines, _dollars(prices.hourly(pool)), " ".join(pool.zones)


def _total(planned: ClusterPlanned) -> str:
    if planned.changes_nothing:
        return "Nothing changes."
    kinds = [change.kind for change in planned.changes]
    parts = [f"{kinds.count(kind)} to {kind}" for kind in _WORDS if kind in kinds]
    return (
        f"{', '.join(parts)}; the machines of a pool that is replaced go first."
        if "replace" in kinds
        else f"{', '.join(parts)}."
    )


def _cost(pools: tuple[Pool, ...], prices: Prices) -> str:
    hourly = [prices.hourly(pool) for pool in pools]
    known = [price for price in hourly if price is not None]
    if len(known) < len(hourly):
        return f"The machines cost -: not every price is known (prices of {prices.of})."
    least = sum(price * pool.min for price, pool in zip(known, pools, strict=True))
    most = sum(price * (pool.max or 0) for price, pool in zip(known, pools, strict=True))
    return f"The machines cost ${least:.2f}/h to ${most:.2f}/h (prices of {prices.of})."


def _dollars(price: float | None) -> str:
    return "-" if price is None else f"{price:.3f}"
