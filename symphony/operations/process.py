"""Reads the processes of an experiment: states, explanations of a state, output, usage; waits for them."""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from symphony.backends.observe import Link, LogLine, MeasuringObserver, ProcessStatus, Usage
from symphony.engine.state import locks
from symphony.engine.state.file_store import StackName
from symphony.errors import SymphonyError, UserError
from symphony.operations import stacks
from symphony.plan.names import listed, sort_key
from symphony.plan.problems import count
from symphony.spec.setting import seconds
from symphony.supervision import duration


def processes(stack: stacks.Stack) -> list[ProcessStatus]:
    """Return the status of every process, in natural order.

    Raises:
        UserError: The experiment is not up, or runs elsewhere.
        SymphonyError: Its backend does not answer.
    """
    stack, _ = stacks.running(stack)
    statuses = stack.statuses()
    if isinstance(statuses, SymphonyError):
        unknown = count(len(stack.processes), "process", "processes")
        what = f"{stack.display_name}: {statuses.what}; {unknown} unknown"
        raise SymphonyError(what, remedy=statuses.remedy) from statuses
    return sorted(statuses, key=lambda status: sort_key(status.path))


class Why(msgspec.Struct, frozen=True):
    """The explanation of a process's state; a broken link is the last."""

    stack: str
    path: str
    links: tuple[Link, ...]


def why(stack: stacks.Stack, path: str) -> Why:
    """Return the explanation of the state of a process, one of explainable().

    Raises:
        UserError: The experiment runs elsewhere.
    """
    stack = stacks.ensure_same_location(stack)
    line = stack.declared_processes.get(path, {}).get("where")
    declared = Link("declared", str(line or "no longer declared, or its line is unknown"))
    if stack.recorded is None:
        remedy = f"`symphony up {stack.display_name}` tries again and shows why it fails"
        links = [Link("started", "no: the last `up` started nothing", broken=True, remedy=remedy)]
    else:
        links = stack.observer().why(stack.recorded, path, stack.display_name)
    return Why(stack.display_name, path, (declared, *links))


def explainable(stack: stacks.Stack) -> Iterable[str]:
    """Return the processes that the program declares or the state records; raise UserError for none."""
    paths = dict.fromkeys([*stack.declared_processes, *stack.processes])
    if not paths:
        raise stack.not_up()
    return paths


def logs(
    stack: stacks.Stack,
    words: Sequence[str] = (),
    *,
    follow: bool = False,
    since: str | None = None,
    tail: int | None = None,
) -> Iterator[LogLine]:
    """Yield lines in the order of time.

    Args:
        stack: The experiment.
        words: Names, groups or patterns of its processes; by default all, of equal workers only rank 0.
        follow: Keep yielding new output.
        since: Only output of the last `90s`, `5m`, `2h`; "0" stands for all, as in kubectl.
        tail: Only so many last lines of each process.

    Raises:
        UserError: The experiment is not up, a word matches no process or one that was never started, or since
            is not a duration.
    """
    stack, recorded = stacks.running(stack)
    named = stacks.match_processes(words, list(explainable(stack)))
    paths = [path for path in named if path in stack.processes]
    if not paths:
        remedy = f"`symphony why {stack.display_name} {named[0]}` shows why"
        raise UserError(f"{listed(named, 3)} printed nothing: never started", remedy=remedy)
    if not words:
        # Workers of further ranks mostly print the same as rank 0.
        declared = stack.declared_processes
        ranks = {path: declared.get(path, {}).get("service_env", {}).get("RANK", "0") for path in paths}
        paths = [path for path in paths if ranks[path] == "0"]
    age = seconds(since) if since else 0
    moment = time.time() - age if age else None
    alive = partial(_is_alive, stacks.Current(stack), paths) if follow else None
    return stack.observer().logs(recorded, paths, alive=alive, since=moment, tail=tail)


def _is_alive(current: stacks.Current, paths: Collection[str]) -> bool:
    """Return whether one of some processes runs or will start, as far as is known."""
    stack = current.read()
    if locks.is_held(stack.name):
        # An `up` or a restart may start them again.
        return True
    statuses = stack.statuses() if stack.recorded is not None else ()
    return isinstance(statuses, SymphonyError) or any(
        status.state in ("running", "waiting") and status.path in paths for status in statuses
    )


# The states of a process that has ended badly.
BAD = ("failed", "lost")


def is_well(status: ProcessStatus) -> bool:
    """Return whether a process is ready or has completed."""
    return status.ready or status.state == "completed"


def state(status: ProcessStatus) -> str:
    """Return the state of a process in words: `running: 14m (last: exit 139)`."""
    since = ago(status.since)
    # The scheduler ends its messages with a full stop.
    parts = [status.why.rstrip("."), f"{since} ago" if status.why and since else since]
    if status.state == "running":
        parts = [since, status.why]
    words = ", ".join(part for part in parts if part)
    last = f" (last: {status.last})" if status.last else ""
    return f"{status.state}{': ' if words else ''}{words}{last}"


def columns(status: ProcessStatus) -> dict[str, Any]:
    """Return the facts of a process under the heads of the original Symphony's table."""
    return {
        "Group": status.group,
        "Name": status.name,
        "Ready": int(status.ready),
        "Restarts": status.restarts,
        "State": state(status),
    }


def ago(since: float | None) -> str:
    """Return the time since a moment as a `duration`; empty without a moment."""
    return "" if since is None else duration(time.time() - since)


# Seconds between two measurements of CPU use.
_PERIOD = 0.25
_UNITS = "KMGTP"


def usage_of(
    stack: stacks.Stack, statuses: Iterable[ProcessStatus], before: Mapping[str, Usage] | None = None
) -> dict[str, Usage]:
    """Return the usage of each process, by path.

    CPU use is measured since `before`, an earlier result; without it, some backends take two measurements.
    """
    recorded, observer = stack.recorded, stack.observer() if stack.recorded else None
    now: Mapping[str, Usage] = {}
    if recorded is not None and isinstance(observer, MeasuringObserver):
        now = observer.usage(recorded)
        if before is None and any(used.cpu is None and used.cpu_time is not None for used in now.values()):
            time.sleep(_PERIOD)
            before, now = now, observer.usage(recorded)
    host = recorded.host if recorded is not None else ""
    # A report may be older than the end of a process.
    running = {status.path for status in statuses if status.state == "running"}
    now = {path: used for path, used in now.items() if path in running}
    return {
        status.path: _complete(
            now.get(status.path, Usage()), (before or {}).get(status.path), status.node or host
        )
        for status in statuses
    }


def _complete(now: Usage, before: Usage | None, node: str) -> Usage:
    """Return a usage with the machine, and the CPU use since an earlier one."""
    cpu = now.cpu
    if now.cpu_time is not None and before and before.cpu_time is not None and now.moment > before.moment:
        # The CPU time of a process falls when a child ends without being waited for.
        cpu = max(0.0, now.cpu_time - before.cpu_time) / (now.moment - before.moment)
    return replace(now, cpu=cpu, node=node)


def usage_columns(used: Usage) -> dict[str, Any]:
    """Return the columns that `process -o wide` adds to those of `process`."""
    cpu = None if used.cpu is None else round(used.cpu, 3)
    return {"cpu": cpu, "memory": used.memory, "gpu": used.gpu, "node": used.node}


def percent(cpu: float | None) -> str:
    """Return the CPU use as `98%` of a core; `-` if it is not measured."""
    return "-" if cpu is None else f"{cpu * 100:.0f}%"


def size(memory: float | None) -> str:
    """Return a number of bytes as `312M` or `2.1G`; `-` if it is not measured."""
    if memory is None:
        return "-"
    unit = ""
    for unit in ("", *_UNITS):  # noqa: B007
        if memory < 1000:
            break
        memory /= 1024
    return f"{memory:.1f}{unit}" if unit and memory < 9.95 else f"{memory:.0f}{unit}"


Goal = Literal["ready", "completed"]
TIMED_OUT = 124
# Seconds between two listings: of this machine, and of a server.
_LOCAL, _REMOTE = 0.5, 3.0

_FAILED = ("failed", "lost", "blocked")
_ENDED = ("completed", "stopped", *_FAILED)


def wait(
    stack: stacks.Stack, paths: Sequence[str] = (), goal: Goal = "completed", timeout: float | None = None
) -> tuple[Sequence[ProcessStatus], int]:
    """Wait for processes, and return their statuses and an exit code.

    The code is 0 if the goal is reached, and 124 at the timeout. For "completed", it is 1 if a process that
    counts failed, was lost, blocked or stopped; with primaries or `paths`, only these count, and the code is
    the exit code of the first that failed, in natural order, if it has one. For "ready", it is 1 as soon as a
    process has failed, or is lost or blocked.

    Without `paths`, "completed" waits for the primaries of the experiment, else for all; "ready" for all.
    Without a timeout, wait for ever. While another run changes the experiment, wait for its end.

    Raises:
        SymphonyError: The experiment was deleted meanwhile.
    """
    began = time.monotonic()
    pause = _LOCAL if stack.on().local else _REMOTE
    current, statuses = stacks.Current(stack), list[ProcessStatus]()
    while True:
        # The lock first, then the state: a run without a lock has written its state.
        is_held = locks.is_held(stack.name)
        stack = current.read()
        if stack.recorded is not None:
            ends: Mapping[str, Sequence[str]] = stack.declared.get("ends") or {}
            decisive = paths or ((ends.get("primary") or ()) if goal == "completed" else ())
            statuses = [status for status in processes(stack) if not paths or status.path in paths]
            code = _exit_code(statuses, goal, decisive)
            if code is not None and not (is_held and (code or stack.recorded.not_created)):
                return statuses, code
        elif not is_held:
            raise _deleted_error(stack)
        left = pause if timeout is None else timeout - (time.monotonic() - began)
        if left <= 0:
            return statuses, TIMED_OUT
        time.sleep(min(pause, left))


def _deleted_error(stack: stacks.Stack) -> SymphonyError:
    what = f"{stack.display_name} was deleted by another command meanwhile"
    return SymphonyError(what, remedy=f"`symphony up {stack.display_name}` starts it again")


def require_undisturbed(name: StackName) -> None:
    """Raise an error if another run has deleted the experiment or is changing it, which ends processes."""
    stack = stacks.read(name)
    if stack.experiment is None:
        raise _deleted_error(stack)
    for lock in locks.read(name.project, name.stack):
        if not locks.is_dead(lock):
            raise locks.locked_error(name, lock)


def _exit_code(statuses: Sequence[ProcessStatus], goal: Goal, decisive: Collection[str]) -> int | None:
    """Return the exit code; None while waiting must continue."""
    if goal == "ready":
        if any(status.state in _FAILED for status in statuses):
            return 1
        return 0 if all(map(is_well, statuses)) else None
    own = [status for status in statuses if status.path in decisive] if decisive else statuses
    if decisive and not own:
        return 1
    if all(status.state == "completed" for status in own):
        return 0
    if any(status.state not in _ENDED for status in own):
        # A process that still runs may unblock others.
        return None
    failed = [status for status in own if status.state in _FAILED]
    return (failed[0].exit_code or 1) if failed and decisive else 1
