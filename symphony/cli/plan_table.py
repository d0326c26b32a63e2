"""Prints a plan as tables: changes of processes or resources, and the machines of a placement."""

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

from symphony.backends import registry
from symphony.cli import screen
from symphony.cli.progress import names_of
from symphony.operations.graph import folded_name
from symphony.operations.plan import AnyPlanned, Planned, ResourcesPlanned
from symphony.placement.machines import GIB
from symphony.plan.changes import Change
from symphony.plan.problems import count

HEAD = ("", "process", "change", "why", "binds", "connects", "after")
_RESOURCES_HEAD = ("", "resource", "change", "why")
_PLACEMENT_HEAD = ("pool", "machine type", "machines", "max", "pods", "$/h")
_KINDS = {
    "restart": ("~", "yellow"),
    "start": ("+", "green"),
    "stop": ("-", "red"),
    "create": ("+", "green"),
    "update": ("~", "yellow"),
    "replace": ("!", "yellow"),
    "delete": ("-", "red"),
    "keep": ("", "dim"),
}
_ORDER = tuple(_KINDS)
# A longer reason shared by several rows is printed once, below the table.
_LONG = 40
_NUMBERED = re.compile(r"(.*?)(\d+)")
_Row = tuple[str, ...]
_T = TypeVar("_T")


def show(planned: AnyPlanned) -> None:
    """Print the changes, their totals and the remarks."""
    if isinstance(planned, ResourcesPlanned):
        _show_resources(planned)
        return
    print(planned.yaml, end="")
    now = f"project {planned.project}, {count(planned.now, 'process', 'processes')} now"
    print(f"{planned.stack} on {planned.backend}   {now}")
    if planned.parameters:
        print(screen.clean(f"parameters: {', '.join(_parameters(planned))}"))
    _show_rows(_rows(planned))
    unused = [f"Not used on {planned.backend}: {', '.join(planned.unused)}."] if planned.unused else []
    print(" ".join([_total(planned), *unused]))
    for image in planned.images:
        print(screen.clean(str(image)))
    if gpus := _gpus(planned):
        print(screen.clean(f"GPUs of this machine: {gpus}.   symphony gpus"))
    if planned.plan.get("placement"):
        show_placement(planned.plan["placement"])
    for remark in planned.remarks:
        print(screen.clean(remark))


def show_changes(planned: Planned) -> None:
    """Print the processes that change, the totals and the images."""
    _show_rows(row for row in _rows(planned) if row[2] != "keep")
    print(_total(planned))
    for image in planned.images:
        print(screen.clean(str(image)))


def _show_rows(rows: Iterable[_Row]) -> None:
    """Print a table of processes, and below it the long reasons that several of them share."""
    rows = sorted(rows, key=lambda row: _ORDER.index(row[2]))
    shared = _shared_reasons(rows)
    if rows:
        _show_changes(HEAD, [(*row[:3], _shortened(row[3], shared), *row[4:]) for row in rows])
    for reason, names in shared.items():
        print(screen.clean(f"{names_of(names)}: {reason}"))


def _parameters(planned: Planned) -> Iterator[str]:
    for name, row in planned.parameters.items():
        yield f"{name} {row['value']}" + ("" if row["from"] == "default" else f" ({row['from']})")


def _gpus(planned: Planned) -> str:
    """Return `learner 1, agent-0..3 1 each; 5 in all`; empty if no process needs this machine's GPUs."""
    counts = [
        (process["path"], int(process["resource_limit"]["gpu"] or 0)) for process in planned.plan["processes"]
    ]
    if not registry.get(planned.backend).local or not any(count for _, count in counts):
        return ""
    parts = [
        f"{folded_name([path for path, _ in alike])} {alike[0][1]}{' each' if len(alike) > 1 else ''}"
        for alike in ranges(counts, name=itemgetter(0), key=itemgetter(1))
        if alike[0][1]
    ]
    return f"{', '.join(parts)}; {sum(count for _, count in counts)} in all"


def _show_resources(planned: ResourcesPlanned) -> None:
    print(screen.clean(f"{planned.stack}, project {planned.project}"))
    changes = [change for change in planned.changes if change.kind != "keep"]
    if changes:
        rows = [(_KINDS[change.kind][0], change.name, change.kind, change.why) for change in changes]
        _show_changes(_RESOURCES_HEAD, rows)
    kinds = [change.kind for change in planned.changes]
    parts = [f"{kinds.count(kind)} to {kind}" for kind in _ORDER if kind in kinds and kind != "keep"]
    unchanged = count(kinds.count("keep"), "resource")
    print(f"{', '.join(parts)}." if parts else f"Nothing changes: {unchanged} unchanged.")


def _show_changes(head: Sequence[str], rows: Sequence[_Row]) -> None:
    screen.show_table(head, rows, row_styles=[_KINDS[row[2]][1] for row in rows])


def _shared_reasons(rows: Sequence[_Row]) -> dict[str, list[str]]:
    """Return long reasons shared by several rows, with the names of the rows."""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        for reason in row[3].split("; "):
            by_reason.setdefault(reason, []).append(row[1])
    return {reason: names for reason, names in by_reason.items() if len(reason) > _LONG and len(names) > 1}


def _shortened(why: str, shared: Collection[str]) -> str:
    """Return the reasons, without the details that are printed below the table."""
    return "; ".join(part.partition(": ")[0] if part in shared else part for part in why.split("; "))


def _total(planned: Planned) -> str:
    kinds = ("restart", "start", "stop")
    parts = [f"{planned.count(kind)} to {kind}" for kind in kinds if planned.count(kind)]
    parts += planned.plan["changed_files"]
    unchanged = planned.count("keep")
    if parts or planned.images:
        return ", ".join([*parts, *([f"{unchanged} unchanged"] if unchanged else [])]) + "."
    restart = f" `symphony restart {planned.stack}` restarts them." if unchanged else ""
    return f"Nothing changes: {count(unchanged, 'process', 'processes')} unchanged.{restart}"


def _rows(planned: Planned) -> Iterator[_Row]:
    by_path = {process["path"]: process for process in planned.plan["processes"]}
    ports = {service["name"]: service["port"] for service in planned.plan["services"]}
    rows = [_row(change, by_path.get(change.path), ports) for change in planned.changes]
    for alike in ranges(rows, name=lambda row: row[1], key=lambda row: row[2:]):
        yield (alike[0][0], folded_name([row[1] for row in alike]), *alike[0][2:])


def _row(change: Change, process: dict[str, Any] | None, ports: dict[str, int]) -> _Row:
    served = [*process["binds"], *process["exposes"]] if process else []
    binds = " ".join(dict.fromkeys(_at(name, ports[name]) for name in served))
    connects = " ".join(process["connects"]) if process else ""
    waits = process.get("waits_for") or () if process else ()
    after = ", ".join(f"{wait['path']} ({wait['condition']})" for wait in waits)
    return _KINDS[change.kind][0], change.path, change.kind, change.why, binds, connects, after


def _at(service: str, port: int) -> str:
    return f"{service}:{port}" if port else service


def show_placement(placement: Mapping[str, Any]) -> None:
    """Print the placement and its total price."""
    rows = [_pool_row(pool) for pool in placement["pools"]]
    screen.show_table(_PLACEMENT_HEAD, rows, styles=("bold",), right=(2, 3, 5))
    print(screen.clean(f"total at the prices of {placement['priced']}: {_dollars(placement['hourly'])} $/h"))


def _pool_row(pool: Mapping[str, Any]) -> tuple[str, ...]:
    gpus = f" + {pool['gpus']} {pool['gpu_type'].rpartition('nvidia-')[2]}" if pool["gpus"] else ""
    spot = ", spot" if pool["spot"] else ""
    maximum = "-" if pool["max"] is None else str(pool["max"])
    pods = ", ".join(_pods_in_words(pool["takes"]))
    machine = f"{pool['machine_type']}{gpus.replace('tesla-', '')}{spot}"
    return pool["name"], machine, str(pool["machines"]), maximum, pods, _dollars(pool["hourly"])


def _pods_in_words(pods: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield pods with their requests: `learner (1 GPU)`, `agent-0..11 (1/3 each: 2.4 cpu, 15.1 GiB)`.

    `1/3` is a third of a machine.
    """
    for (parts, *requests), alike in groupby(pods, key=itemgetter("per_machine", "cpu", "memory", "gpus")):
        names = [str(pod["pod"]) for pod in alike]
        each = " each" if len(names) > 1 else ""
        share = f"1/{parts}{each}: " if parts > 1 else ""
        folded = ", ".join(map(folded_name, ranges(names, name=str, key=lambda _: None)))
        yield (
            f"{folded} ({share}{', '.join(_amounts(*requests))})"
            if any(requests)
            else f"{folded} (no request)"
        )


def _amounts(cpu: int, memory: int, gpus: int) -> Iterator[str]:
    if cpu:
        yield f"{round(cpu / 1000, 2):g} cpu"
    if memory:
        yield f"{round(memory / GIB, 2):g} GiB"
    if gpus:
        yield count(gpus, "GPU")


def _dollars(hourly: float | None) -> str:
    return "-" if hourly is None else f"{hourly:.2f}"


def ranges(
    items: Sequence[_T], name: Callable[[_T], str], key: Callable[[_T], Hashable]
) -> Iterator[list[_T]]:
    """Yield lists of neighbours with equal keys whose names count up: agent-0, agent-1, ... agent-7."""
    alike: list[_T] = []
    for item in items:
        if alike and not (key(item) == key(alike[-1]) and _counts_up(name(alike[-1]), name(item))):
            yield alike
            alike = []
        alike.append(item)
    if alike:
        yield alike


def _counts_up(before: str, name: str) -> bool:
    first, second = _NUMBERED.fullmatch(before), _NUMBERED.fullmatch(name)
    return bool(first and second and first[1] == second[1] and int(second[2]) == int(first[2]) + 1)
