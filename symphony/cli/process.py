"""`symphony process`: lists the processes of an experiment with their states."""

import time
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from msgspec.structs import asdict

from symphony.backends.observe import ProcessStatus
from symphony.cli import arguments, screen
from symphony.operations.process import (
    BAD,
    is_well,
    percent,
    processes,
    size,
    state,
    usage_columns,
    usage_of,
)
from symphony.operations.stacks import Stack

HEAD = ("group", "name", "ready", "restarts", "node", "state")
WIDE = ("group", "name", "ready", "restarts", "cpu", "mem", "gpu", "pid", "node", "start", "state")


class Output(StrEnum):
    WIDE = "wide"


def command(
    name: arguments.Experiment = None,
    as_json: arguments.AsJson = False,
    output: Annotated[
        Output | None,
        typer.Option("-o", "--output", help="`wide` adds CPU, memory, GPU, pid, machine and start."),
    ] = None,
) -> None:
    """List the processes of an experiment: group, name, ready, restarts, node, state.

    Examples:
        symphony process rl
        symphony process rl -o wide
        symphony process rl --json
    """
    stack = arguments.experiment(name)
    statuses = processes(stack)
    if output is Output.WIDE:
        _show_wide(stack, statuses, as_json=as_json)
    elif as_json:
        screen.show_json([_json(status) for status in statuses])
    else:
        rows = [(*_start(status), status.node, screen.cut(state(status))) for status in statuses]
        screen.show_table(
            HEAD, rows, styles=("", "bold"), right=(2, 3), states=[style_of([status]) for status in statuses]
        )


def style_of(statuses: Sequence[ProcessStatus]) -> str:
    """Return the style of the state of processes that share a row."""
    return screen.state_style(
        well=all(map(is_well, statuses)), bad=any(status.state in BAD for status in statuses)
    )


def _show_wide(stack: Stack, statuses: Sequence[ProcessStatus], *, as_json: bool) -> None:
    used = usage_of(stack, statuses)
    if as_json:
        screen.show_json([{**_json(status), **usage_columns(used[status.path])} for status in statuses])
        return
    rows = [
        (
            *_start(status),
            percent(own.cpu),
            size(own.memory),
            own.gpu or "-",
            status.pid or "-",
            own.node or "-",
            _moment(status),
            screen.cut(state(status)),
        )
        for status in statuses
        for own in (used[status.path],)
    ]
    screen.show_table(
        WIDE,
        rows,
        styles=("", "bold"),
        right=(2, 3, 4, 5, 7),
        states=[style_of([status]) for status in statuses],
    )


def _json(status: ProcessStatus) -> dict[str, Any]:
    return {**asdict(status), "group": status.group, "name": status.name}


def _start(status: ProcessStatus) -> tuple[object, ...]:
    """Return the first cells of a row; "ready" is 1 also for a completed process."""
    return status.group, status.name, int(is_well(status)), status.restarts


def _moment(status: ProcessStatus) -> str:
    if status.state != "running" or status.since is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(status.since))
