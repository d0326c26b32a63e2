"""The placement as a table: the machines of each pool, their pods, their price an hour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from symphony.cli import ranges, screen
from symphony.placement.machines import GIB
from symphony.plan.problems import count

HEAD = ("pool", "machine", "machines", "of max", "takes", "$/h")


def show(placement: Mapping[str, Any]) -> None:
    """Print the placement and its total price."""
    rows = [_row(pool) for pool in placement["pools"]]
    screen.show_table(HEAD, rows, styles=("bold",), right=(2, 3, 5))
    print(screen.clean(f"prices of {placement['priced']}: {_dollars(placement['hourly'])} $/h"))


def _row(pool: Mapping[str, Any]) -> tuple[str, ...]:
    gpus = f" + {pool['gpus']} {pool['gpu_type'].rpartition('nvidia-')[2]}" if pool["gpus"] else ""
    spot = ", spot" if pool["spot"] else ""
    most = "-" if pool["max"] is None else str(pool["max"])
    takes = ", ".join(_takes(pool["takes"]))
    machine = f"{pool['machine_type']}{gpus.replace('tesla-', '')}{spot}"
    return pool["name"], machine, str(pool["machines"]), most, takes, _dollars(pool["hourly"])


def _takes(pods: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """`learner (1 GPU)`, `agent-0..11 (1/3 each: 2.4 cpu, 15.1 GiB)`."""
    for (parts, *claims), alike in groupby(pods, key=itemgetter("per_machine", "cpu", "memory", "gpus")):
        names = [str(pod["pod"]) for pod in alike]
        apiece = " each" if len(names) > 1 else ""
        share = f"1/{parts}{apiece}: " if parts > 1 else ""
        runs = ", ".join(map(ranges.shown, ranges.runs(names, name=str, alike=lambda _: None)))
        yield f"{runs} ({share}{', '.join(_claimed(*claims))})" if any(claims) else f"{runs} (no request)"


def _claimed(cpu: int, memory: int, gpus: int) -> Iterator[str]:
    if cpu:
        yield f"{round(cpu / 1000, 2):g} cpu"
    if memory:
        yield f"{round(memory / GIB, 2):g} GiB"
    if gpus:
        yield count(gpus, "GPU")


def _dollars(hourly: float | None) -> str:
    return "-" if hourly is None else f"{hourly:.2f}"
