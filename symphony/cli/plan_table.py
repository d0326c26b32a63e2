"""The plan as a table: new, changed and removed processes, and the reasons."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from symphony.cli import cluster_table, ranges, screen
from symphony.cli.progress import names_of
from symphony.operations.cluster import ClusterPlanned
from symphony.operations.plan import Planned
from symphony.plan.changes import Change
from symphony.plan.problems import count

HEAD = ("", "process", "change", "why", "binds", "connects", "after")
_MARKS = {"start": "+", "restart": "~", "stop": "-", "keep": ""}
_STYLES = {"start": "green", "restart": "yellow", "stop": "red", "keep": "dim"}
_ORDER = ("restart", "start", "stop", "keep")
# A longer reason that several rows share is printed once, below the table.
_LONG = 40
_Row = tuple[str, ...]


def show(planned: Planned | ClusterPlanned) -> None:
    """Print the changes, and below them their number and all remarks."""
    if isinstance(planned, ClusterPlanned):
        cluster_table.show(planned)
        return
    print(planned.yaml, end="")
    now = f"project {planned.project}, {count(planned.now, 'process', 'processes')} now"
    print(f"{planned.stack} on {planned.backend}   {now}")
    rows = sorted(_rows(planned), key=lambda row: _ORDER.index(row[2]))
    shared = _shared_reasons(rows)
    rows = [(*row[:3], _in_short(row[3], shared), *row[4:]) for row in rows]
    screen.show_table(HEAD, rows, row_styles=[_STYLES[row[2]] for row in rows])
    for reason, names in shared.items():
        print(screen.clean(f"{names_of(names)}: {reason}"))
    unused = [f"Not used on {planned.backend}: {', '.join(planned.unused)}."] if planned.unused else []
    print(" ".join([_total(planned), *unused]))
    for image in planned.images:
        print(screen.clean(str(image)))
    if planned.plan.get("placement"):
        # Most plans have none.
        from symphony.cli import placement_table

        placement_table.show(planned.plan["placement"])
    for remark in planned.remarks:
        print(screen.clean(remark))


def _shared_reasons(rows: Sequence[_Row]) -> dict[str, list[str]]:
    """Return long reasons that several rows share, with their names."""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        for reason in row[3].split("; "):
            by_reason.setdefault(reason, []).append(row[1])
    return {reason: names for reason, names in by_reason.items() if len(reason) > _LONG and len(names) > 1}


def _in_short(why: str, shared: Collection[str]) -> str:
    """Return the reasons without the details that are printed below the table."""
    return "; ".join(part.partition(": ")[0] if part in shared else part for part in why.split("; "))


def _total(planned: Planned) -> str:
    kinds = ("restart", "start", "stop")
    parts = [f"{planned.count(kind)} to {kind}" for kind in kinds if planned.count(kind)]
    parts += planned.plan["changed_files"]
    unchanged = planned.count("keep")
    if parts or planned.images:
        return ", ".join([*parts, *([f"{unchanged} unchanged"] if unchanged else [])]) + "."
    again = f" `symphony restart {planned.stack}` restarts." if unchanged else ""
    return f"Nothing changes: {count(unchanged, 'process', 'processes')} unchanged.{again}"


def _rows(planned: Planned) -> Iterator[_Row]:
    by_path = {process["path"]: process for process in planned.plan["processes"]}
    ports = {service["name"]: service["port"] for service in planned.plan["services"]}
    rows = [_row(change, by_path.get(change.path), ports) for change in planned.changes]
    for run in ranges.runs(rows, name=lambda row: row[1], alike=lambda row: row[2:]):
        yield (run[0][0], ranges.shown([row[1] for row in run]), *run[0][2:])


def _row(change: Change, process: dict[str, Any] | None, ports: dict[str, int]) -> _Row:
    served = [*process["binds"], *process["exposes"]] if process else []
    binds = " ".join(dict.fromkeys(f"{name}:{ports[name]}" for name in served))
    connects = " ".join(process["connects"]) if process else ""
    after = ", ".join(
        f"{wait['path']} ({wait['condition']})"
        for wait in (process.get("waits_for") or () if process else ())
    )
    return _MARKS[change.kind], change.path, change.kind, change.why, binds, connects, after
