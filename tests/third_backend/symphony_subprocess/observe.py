"""What lives of an experiment, from its state and the files of its supervisors."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from symphony import paths as places
from symphony.backends.observe import (
    LIMIT,
    PATIENCE,
    Link,
    LogLine,
    Owned,
    ProcessStatus,
    Recorded,
    Resource,
)
from symphony.errors import UserError
from symphony_subprocess import folders, processes
from symphony_subprocess import logs as log_lines
from symphony_subprocess.resources import EXPERIMENT_TYPE, PROCESS_TYPE

_GRACE = 5.0


def recorded(owner: str, resources: Iterable[Resource]) -> Recorded | None:
    result: dict[str, Mapping[str, Any]] = {}
    name = ""
    for each in resources:
        if each.type in (EXPERIMENT_TYPE, PROCESS_TYPE):
            name = str(each.inputs["name"])
        if each.type == PROCESS_TYPE:
            result[str(each.inputs["path"])] = {**each.inputs, **each.outputs}
    return Recorded(owner, name, result, places.host()) if name else None


def statuses(recorded: Sequence[Recorded]) -> list[list[ProcessStatus]]:
    return [[_status(each.owner, path) for path in each.processes] for each in recorded]


def restart_reasons(recorded: Recorded) -> dict[str, str]:
    result = statuses([recorded])[0]
    return {each.path: each.why for each in result if each.state not in ("running", "completed")}


def changed_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> Sequence[str]:
    return [name for name in processes.SETTINGS if old.get(name) != new.get(name)]


def watch(
    recorded: Recorded, *, patience: float = PATIENCE, limit: float = LIMIT
) -> Iterator[tuple[ProcessStatus, ...]]:
    yield tuple(statuses([recorded])[0])


def logs(
    recorded: Recorded,
    paths: Sequence[str],
    *,
    follow: bool = False,
    since: float | None = None,
    tail: int | None = None,
) -> Iterator[LogLine]:
    return log_lines.merged(recorded.owner, paths, follow=follow, since=since or 0, tail=tail)


def why(recorded: Recorded, path: str, name: str) -> Sequence[Link]:
    facts = recorded.processes.get(path)
    again = f"`symphony up {name}` starts it again"
    if facts is None:
        return [Link("started", "no: the last `up` did not get to it", broken=True, remedy=again)]
    status, result = _status(recorded.owner, path), folders.status(recorded.owner, path)
    links = [Link("planned", f"{shlex.join(facts['argv'])} in {facts['cwd']}")]
    links.append(Link("started", f"start {facts['attempt']} of it", result.began if result else None))
    match status.state:
        case "running":
            return [*links, Link("ready", f"running, process {status.pid}", status.since)]
        case "completed":
            return [*links, Link("exit", "exit 0", status.since)]
        case "failed":
            last = tuple(line.text for line in log_lines.of(recorded.owner, path) if not line.ended)[-5:]
            remedy = f"`symphony logs {name} {path}` shows its whole output; {again}"
            return [*links, Link("exit", status.why, status.since, True, last, remedy)]
        case _:
            return [*links, Link("lost", status.why, broken=True, remedy=again)]


def connection_settings(settings: Mapping[str, Any], folder: Path) -> dict[str, str]:
    return {}


def ensure_same_location(
    recorded: Recorded, name: str, connection: Mapping[str, str] | None = None
) -> Recorded:
    if recorded.host != places.host():
        raise UserError(f"{name} was started on {recorded.host}", remedy=f"Run this on {recorded.host}")
    return recorded


def terminate_early(recorded: Recorded) -> None:
    """An experiment ends as a whole."""


def ensure_reachable(recorded: Recorded) -> None:
    """This machine answers."""


def deletion_blockers(recorded: Recorded) -> str:
    return ""


def list_owned() -> Sequence[Owned]:
    return [Owned(owner, name, tuple(_living(owner))) for owner, name in folders.noted()]


def list_lost() -> Sequence[Owned]:
    return []


def delete_lost(owner: str) -> None:
    """None is listed."""


def end_undeclared(owner: str, declared: Collection[str]) -> int:
    strays = [path for path in folders.processes(owner) if path not in declared]
    for path in strays:
        processes.remove(owner, path, _GRACE)
    return len(strays)


def arrange(owner: str, paths: Sequence[str]) -> None:
    """Nobody looks at them in an order."""


def delete_orphans(owner: str, launched_as: str, recorded: Recorded | None = None) -> int:
    living = _living(owner)
    processes.remove(owner, None, _GRACE)
    return len(living)


def _living(owner: str) -> list[str]:
    return [path for path in sorted(folders.processes(owner)) if folders.is_supervised(owner, path)]


def _status(owner: str, path: str) -> ProcessStatus:
    status = folders.status(owner, path)
    if status is None:
        return ProcessStatus(path, "lost", ready=False, why="its files are gone")
    if status.code is not None:
        how = signal.Signals(-status.code).name if status.code < 0 else f"exit {status.code}"
        state, why = ("failed", how) if status.code else ("completed", "")
        return ProcessStatus(path, state, False, why=why, since=status.ended)
    if not folders.is_supervised(owner, path):
        return ProcessStatus(path, "lost", False, why="its supervisor is gone")
    return ProcessStatus(path, "running", True, since=status.began, pid=status.pid)
