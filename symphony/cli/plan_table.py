"""The plan on the screen: what is new, changed, gone and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from symphony.cli import cluster_table, ranges, screen
from symphony.cli.progress import names_of
from symphony.operations.cluster import ClusterPlanned
from symphony.operations.plan import Planned
from symphony.plan.changes import Change
from symphony.plan.problems import count

HEAD = ("", "process", "change", "why", "binds", "connects")
_MARKS = {"start": "+", "restart": "~", "stop": "-", "keep": ""}
_STYLES = {"start": "green", "restart": "yellow", "stop": "red", "keep": "dim"}
_ORDER = ("restart", "start", "stop", "keep")
# A reason longer than this that several rows have stands below them, once.
_LONG = 40
_Row = tuple[str, ...]


def show(planned: Planned | ClusterPlanned) -> None:
    """Print the plan, after the manifests if it has them, and below it what it comes to."""
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
    print(" ".join([_total(planned), *_not_used(planned)]))
    for image in planned.images:
        print(screen.clean(str(image)))
    if planned.plan.get("placement"):
        # Most plans have none.
        from symphony.cli import placement_table

        placement_table.show(planned.plan["placement"])
    for remark in planned.remarks:
        print(screen.clean(remark))


def _shared_reasons(rows: Sequence[_Row]) -> dict[str, list[str]]:
    """Long reasons that several rows have, with the names of these."""
    result: dict[str, list[str]] = {}
    for row in rows:
        for reason in row[3].split("; "):
            result.setdefault(reason, []).append(row[1])
    return {reason: names for reason, names in result.items() if len(reason) > _LONG and len(names) > 1}


def _in_short(why: str, shared: Collection[str]) -> str:
    """Of a reason that stands whole below only what changes."""
    return "; ".join(each.partition(": ")[0] if each in shared else each for each in why.split("; "))


def _total(planned: Planned) -> str:
    parts = [
        f"{planned.count(kind)} {word}"
        for kind, word in (("restart", "restart"), ("start", "start"), ("stop", "stop"))
        if planned.count(kind)
    ]
    parts += planned.plan["changed_files"]
    kept = planned.count("keep")
    if not parts and planned.images:
        return f"{count(kept, 'process', 'processes')} {stay(kept)}."
    if not parts:
        them = "it" if kept == 1 else "them"
        again = f" `symphony restart {planned.stack}` starts {them} again." if kept else ""
        return f"Nothing changes: {count(kept, 'process', 'processes')} {stay(kept)}.{again}"
    return ", ".join([*parts, *([f"{kept} {stay(kept)}"] if kept else [])]) + "."


def stay(kept: int) -> str:
    """What so many do of which nothing changes."""
    return "stays as it is" if kept == 1 else "stay as they are"


def _not_used(planned: Planned) -> list[str]:
    return [f"Not used on {planned.backend}: {', '.join(planned.unused)}."] if planned.unused else []


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
    return _MARKS[change.kind], change.path, change.kind, change.why, binds, connects
