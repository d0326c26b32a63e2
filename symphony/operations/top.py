"""The data of `symphony top`: processes with their usage, services with their connections."""

import socket
import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from symphony.backends.observe import Port, PortObserver, ProcessStatus, Usage
from symphony.errors import SymphonyError
from symphony.operations import graph, stacks
from symphony.operations.graph import Graph
from symphony.operations.process import is_well, processes, usage_columns, usage_of

# Seconds between two looks at the sockets of the machine, and the share of a CPU that they may take.
_SOCKETS_EVERY, _SHARE = 3.0, 0.03
# Seconds for a connection.
_DEADLINE = 2.0
_AT_ONCE = 16


@dataclass(frozen=True)
class Row:
    """A process: its status, its usage and its last line of output."""

    status: ProcessStatus
    used: Usage
    line: str = ""

    def to_json(self) -> dict[str, Any]:
        own = {"group": self.status.group, "name": self.status.name, "line": self.line}
        return {**msgspec.structs.asdict(self.status), **own, **usage_columns(self.used)}


@dataclass(frozen=True)
class Edge:
    """A service, the process that binds it and its clients.

    Attributes:
        binds: The process that binds it.
        connects: The processes that declare to connect to it.
        ready: Whether the process that binds it is ready.
        listens: Whether that process listens; None on other machines.
        connected: The processes that have a connection to it now; empty on other machines.
        seconds: The time that the last check took to connect; None if it failed, or without a check.
        trouble: The reason why the clients get no answer.
        since: When the trouble began, in seconds since the epoch; None if its process was not seen
            listening just before.
    """

    service: str
    address: str
    binds: str
    connects: tuple[str, ...]
    ready: bool = False
    listens: bool | None = None
    connected: frozenset[str] = frozenset()
    seconds: float | None = None
    trouble: str = ""
    since: float | None = None

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])


@dataclass(frozen=True)
class View:
    """A snapshot of an experiment; trouble: why it has none, such as a backend that does not answer."""

    name: str
    backend: str
    rows: tuple[Row, ...]
    edges: tuple[Edge, ...]
    trouble: str = ""
    graph: Graph = field(default=graph.NOTHING, repr=False)

    @property
    def ready(self) -> int:
        return sum(1 for row in self.rows if is_well(row.status))

    @property
    def is_ready(self) -> bool:
        """Return whether every process is ready or has completed, and every service that is used answers."""
        return not self.trouble and self.ready == len(self.rows) and not any(e.trouble for e in self.edges)

    @property
    def since(self) -> float | None:
        """The earliest start of a ready process, in seconds since the epoch."""
        return min(
            (row.status.since for row in self.rows if row.status.ready and row.status.since), default=None
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "backend": self.backend,
            "ready": self.is_ready,
            "trouble": self.trouble,
            "processes": [row.to_json() for row in self.rows],
            "services": self.edges,
        }


class Sampler:
    """Takes snapshots of an experiment."""

    def __init__(self, stack: stacks.Stack) -> None:
        self._used: Mapping[str, Usage] | None = None
        self._current = stacks.Current(stack)
        self._use(stack)

    def sample(self, last_lines_of: Collection[str] | None = ()) -> View:
        """Return a snapshot of the experiment, with the last line of some processes, or of all for None."""
        try:
            if (stack := self._current.read()) is not self._read:
                # An `up`, a restart or a deletion has changed the state.
                self._use(stack)
            statuses = processes(self._stack)
        except SymphonyError as error:
            return View(self._stack.display_name, self._stack.backend or "", (), (), error.line)
        stack, backend = self._stack, self._stack.backend or ""
        self._used = used = usage_of(stack, statuses, self._used)
        last = self._last_lines([s.path for s in statuses] if last_lines_of is None else last_lines_of)
        rows = tuple(Row(status, used[status.path], last.get(status.path, "")) for status in statuses)
        by_path = {status.path: status for status in statuses}
        ready = {status.path for status in statuses if status.ready}
        addresses = stacks.addresses(stack)
        self._edges = [
            replace(
                edge,
                ready=edge.binds in ready,
                address=addresses[edge.service],
                seconds=edge.seconds if edge.listens or edge.binds in ready else None,
            )
            for edge in self._edges
        ]
        self._look_at_sockets({status.path for status in statuses if status.state == "running"})
        drawn = graph.build(stack.display_name, backend, self._declared, stacks.services(stack), by_path)
        return View(stack.display_name, backend, rows, tuple(self._edges), "", drawn)

    def check(self) -> bool:
        """Connect to every service once, and measure the time.

        Return False if the services run on other machines and this one can connect to none.
        """
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            self._edges = list(pool.map(_connect, self._edges))
        is_here = isinstance(self._stack.observer(), PortObserver)
        return is_here or any(edge.seconds is not None for edge in self._edges)

    def _use(self, stack: stacks.Stack) -> None:
        """Look at the processes of this state from now on; raise UserError if it has none."""
        self._read = stack
        self._stack, self._recorded = stacks.running(stack)
        self._declared = graph.declared_processes(self._stack)
        self._edges = _edges(self._stack, self._declared)
        self._next_sockets = 0.0

    def _last_lines(self, wanted: Collection[str]) -> dict[str, str]:
        known = [path for path in wanted if path in self._stack.processes]
        if not known:
            return {}
        try:
            lines = self._stack.observer().logs(self._recorded, known, tail=1)
            return {line.path: line.text for line in lines if not line.ended and line.text.strip()}
        except SymphonyError:
            return {}

    def _look_at_sockets(self, running: Collection[str]) -> None:
        """Find listeners and connections in the kernel: a server may accept only one connection."""
        observer = self._stack.observer()
        if not isinstance(observer, PortObserver) or not self._edges:
            return
        if time.monotonic() < self._next_sockets:
            return
        began = time.process_time()
        ports = observer.ports(self._recorded, {edge.port for edge in self._edges})
        self._edges = [
            _seen(edge, ports[edge.port], edge.binds in running) if edge.port in ports else edge
            for edge in self._edges
        ]
        took = time.process_time() - began
        self._next_sockets = time.monotonic() + max(_SOCKETS_EVERY, took / _SHARE)


def _seen(edge: Edge, port: Port, runs: bool) -> Edge:
    """Return an edge after a look at its port; runs: whether the process that binds it runs."""
    trouble = ""
    if port.listener is None:
        trouble = "not listening" if edge.connects and runs else ""
    elif port.listener != edge.binds:
        trouble = f"{port.listener or 'another program'} listens there"
    since = edge.since or (time.time() if edge.listens else None) if trouble else None
    listens = port.listener == edge.binds
    seconds = edge.seconds if listens else None
    return replace(edge, listens=listens, connected=port.users, trouble=trouble, since=since, seconds=seconds)


def _connect(edge: Edge) -> Edge:
    host, _, port = edge.address.rpartition(":")
    began = time.perf_counter()
    try:
        socket.create_connection((host, int(port)), _DEADLINE).close()
    except OSError:
        return replace(edge, seconds=None)
    return replace(edge, seconds=time.perf_counter() - began)


def _edges(stack: stacks.Stack, declared: Iterable[Mapping[str, Any]]) -> list[Edge]:
    clients: dict[str, list[str]] = {}
    for row in declared:
        for name in row.get("connects") or ():
            clients.setdefault(name, []).append(row["path"])
    binders = {service["name"]: service["path"] for service in stacks.services(stack)}
    return [
        Edge(name, address, binders[name], tuple(clients.get(name, ())))
        for name, address in stacks.addresses(stack).items()
    ]
