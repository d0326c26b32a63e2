"""The graph of an experiment: processes, the services between them, and dependencies."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from symphony.backends.observe import ProcessStatus
from symphony.operations import stacks
from symphony.operations.process import is_well, sort_key
from symphony.operations.process import processes as statuses_of
from symphony.plan.names import RENDEZVOUS

if TYPE_CHECKING:
    from symphony.operations.plan import Planned

_NUMBERED = re.compile(r"(.*?)(\d*)")

Health = Literal["planned", "well", "done", "waiting", "bad"]
BAD = ("failed", "lost")


@dataclass(frozen=True)
class Node:
    """A process, or several processes whose names differ only in numbers, such as equal workers.

    Attributes:
        name: Its name in its group: `learner`, `agent-0..3`.
        group: Its process group, or several such as `pool-0..1`; empty without one.
        paths: Its processes.
        state: Their state in words; empty in a plan.
    """

    name: str
    group: str
    paths: tuple[str, ...]
    state: str = ""
    health: Health = "planned"

    @property
    def path(self) -> str:
        return f"{self.group}/{self.name}" if self.group else self.name


@dataclass(frozen=True)
class Service:
    """A service, with the indices of the node that binds it and the nodes that connect to it."""

    name: str
    port: int
    binds: int
    connects: tuple[int, ...]
    exposed: bool = False

    @property
    def label(self) -> str:
        # A job of Slurm chooses its ports when it starts.
        return f"{self.name}:{self.port}" if self.port else self.name


@dataclass(frozen=True)
class Order:
    """A dependency between two nodes, by index."""

    waits: int
    on: int
    condition: str


@dataclass(frozen=True)
class Graph:
    """An experiment as nodes, services and dependencies; the nodes of a group are adjacent."""

    name: str
    backend: str
    nodes: tuple[Node, ...]
    services: tuple[Service, ...]
    order: tuple[Order, ...]

    @property
    def groups(self) -> dict[str, list[int]]:
        """The indices of the nodes of each group; "" is the key of the nodes without a group."""
        members: dict[str, list[int]] = {}
        for number, node in enumerate(self.nodes):
            members.setdefault(node.group, []).append(number)
        return members


NOTHING = Graph("", "", (), (), ())


def of_stack(stack: stacks.Stack) -> Graph:
    """Return the graph of an experiment that is up, with the states of its processes."""
    statuses = {status.path: status for status in statuses_of(stack)}
    return build(stack.display_name, stack.backend or "", declared(stack), stacks.services(stack), statuses)


def declared(stack: stacks.Stack) -> list[Mapping[str, Any]]:
    """Return the declarations of the processes, in natural order."""
    return sorted(stack.declared_processes.values(), key=lambda process: sort_key(process["path"]))


def of_plan(planned: Planned) -> Graph:
    """Return the graph of a plan."""
    return build(planned.stack, planned.backend, planned.plan["processes"], planned.plan["services"])


def build(
    name: str,
    backend: str,
    processes: Iterable[Mapping[str, Any]],
    services: Iterable[Mapping[str, Any]],
    statuses: Mapping[str, ProcessStatus] | None = None,
) -> Graph:
    """Return the graph for the processes and services of a plan."""
    folded: defaultdict[tuple[object, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for process in sorted(processes, key=lambda process: sort_key(process["path"])):
        folded[_alike(process)].append(process)
    nodes = tuple(_node(members, statuses) for members in folded.values())
    number = {path: index for index, node in enumerate(nodes) for path in node.paths}
    users: defaultdict[str, set[int]] = defaultdict(set)
    order: dict[Order, None] = {}
    for members in folded.values():
        for process in members:
            for service in process.get("connects") or ():
                users[service].add(number[process["path"]])
            for wait in process.get("waits_for") or ():
                if wait["path"] in number:
                    order[Order(number[process["path"]], number[wait["path"]], wait["condition"])] = None
    return Graph(
        name,
        backend,
        nodes,
        tuple(
            Service(
                service["name"],
                int(service["port"]),
                number[service["path"]],
                tuple(sorted(users[service["name"]])),
                bool(service["exposed"]),
            )
            for service in services
            if service["path"] in number
        ),
        tuple(order),
    )


def _alike(process: Mapping[str, Any]) -> tuple[object, ...]:
    """Return a key for processes that differ only in the numbers at the ends of their names.

    Equal workers have the same key, although only the first of them binds their rendezvous service.
    """
    waits = {(_stem(wait["path"]), wait["condition"]) for wait in process.get("waits_for") or ()}
    used = (frozenset(map(_stem, process.get(verb) or ())) for verb in ("binds", "connects", "exposes"))
    group, _, name = process["path"].rpartition("/")
    variables: Mapping[str, str] = process.get("service_env") or {}
    if RENDEZVOUS in variables:
        return group, variables[RENDEZVOUS]
    return _stem(group), _stem(name), *used, frozenset(waits)


def _stem(name: str) -> tuple[str, bool]:
    match = _NUMBERED.fullmatch(name)
    assert match is not None, "every text ends with digits or none"
    return match[1], bool(match[2])


def _node(members: Sequence[Mapping[str, Any]], statuses: Mapping[str, ProcessStatus] | None) -> Node:
    paths = tuple(process["path"] for process in members)
    parts = [path.rpartition("/") for path in paths]
    name = folded_name([name for _, _, name in parts])
    group = folded_name([group for group, _, _ in parts])
    if statuses is None:
        return Node(name, group, paths)
    known = [statuses[path] for path in paths if path in statuses]
    states = list(dict.fromkeys(status.state for status in known)) or ["not created"]
    ready = sum(map(is_well, known))
    state = f"{ready} of {len(paths)} ready"
    if len(states) == 1 and ready in (0, len(paths)):
        state = "not ready" if states == ["running"] and not ready else states[0]
    health: Health = "waiting"
    if {*BAD, "not created"} & {*states}:
        health = "bad"
    elif ready == len(paths):
        health = "done" if states == ["completed"] else "well"
    return Node(name, group, paths, state, health)


def folded_name(names: Sequence[str]) -> str:
    """Return one name for names that differ in the number at their end: agent-0..3, or agent-* with gaps."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) == 1:
        return distinct[0]
    numbers = [name[len(_stem(name)[0]) :] for name in distinct]
    whole = sorted(map(int, numbers))
    prefix = _stem(distinct[0])[0]
    counts_up = whole[-1] - whole[0] == len(whole) - 1
    return f"{prefix}{min(numbers, key=int)}..{max(numbers, key=int)}" if counts_up else f"{prefix}*"
