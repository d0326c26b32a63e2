"""The protocol by which a backend is observed, and the values that it returns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from symphony.errors import SymphonyError

# Seconds that a watch waits for trouble that may pass (no machine free, an image that does not come).
PATIENCE = 60.0
# Seconds that it waits in all: large images take their time.
LIMIT = 600.0

State = Literal["running", "completed", "failed", "lost", "waiting", "blocked", "stopped", "unknown"]


class Resource(Protocol):
    """One resource of a stack's state."""

    @property
    def urn(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> Mapping[str, Any]: ...
    @property
    def outputs(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class Recorded:
    """An experiment in this backend, as the state of a stack records it.

    Attributes:
        owner: The stack, as the backend's objects name it.
        physical_name: The name of the tmux session, the namespace or the job.
        processes: path -> the recorded inputs and outputs of the process, and its fingerprint.
        host: The machine it was started on, where that matters.
        connection: How its backend is reached, where there is more than one.
        objects: The path of each object beside its processes -> its uid.
        unmade: The processes that the program declares and the last run did not make.
    """

    owner: str
    physical_name: str
    processes: Mapping[str, Mapping[str, Any]]
    host: str = ""
    connection: Mapping[str, str] = field(default_factory=dict[str, str])
    objects: Mapping[str, str] = field(default_factory=dict[str, str])
    unmade: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProcessStatus:
    """The status of one process.

    Attributes:
        path: That of the process.
        state: Its state.
        ready: Whether it runs and is ready.
        restarts: How often it was started again.
        why: What a person should know beside the state: `exit 1`, `SIGSEGV`, `window closed`; may be empty.
        since: When the state began, in seconds since the epoch.
        last: How the attempt before this one ended.
        pid: Its process id, where it is on this machine.
        words: The last lines of a failed process, where its backend keeps them.
        exit_code: Its exit code where it has ended, 128 and more for a signal; None where that is not known.
        waits_for: The processes that it waits for, with the condition: `prepare (completed)`.
        node: The machine that it runs on, where there are several.
        code: The digest of its code when `up` started it; empty where it declares none.
    """

    path: str
    state: State
    ready: bool
    restarts: int = 0
    why: str = ""
    since: float | None = None
    last: str = ""
    pid: int | None = None
    words: tuple[str, ...] = ()
    node: str = ""
    code: str = ""
    waits_for: tuple[str, ...] = ()
    exit_code: int | None = None

    @property
    def group(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Usage:
    """The machine that one process and all below it use; None where the backend does not say.

    Attributes:
        cpu: Cores in use.
        memory: Bytes of resident memory.
        gpu: The GPUs in use, with their memory: `0: 6.2G`.
        node: The machine.
        cpu_time: Seconds of CPU so far; two looks give cpu.
        moment: Monotonic seconds of this look.
    """

    cpu: float | None = None
    memory: int | None = None
    gpu: str = ""
    node: str = ""
    cpu_time: float | None = None
    moment: float = 0.0


@dataclass(frozen=True)
class Port:
    """A port of this machine.

    Attributes:
        listener: The process that listens; empty where that is another program, None where nothing listens.
        users: The processes that have a connection to it.
    """

    listener: str | None
    users: frozenset[str]


@dataclass(frozen=True)
class LogLine:
    """One line of a process's output; `ended` lines are symphony's own, that the process ended."""

    path: str
    text: str
    time: float | None = None
    ended: bool = False


@dataclass(frozen=True)
class Link:
    """One step of a process on its way to running, in the order of time: `scheduled`, `node-1`.

    broken: it has come no further; more: what is known beside it, such as the last lines of its log.
    """

    step: str
    what: str
    since: float | None = None
    broken: bool = False
    more: tuple[str, ...] = ()
    remedy: str = ""


@dataclass(frozen=True)
class Owned:
    """An experiment that lives on this machine, by the marker of its processes."""

    owner: str
    physical_name: str
    paths: tuple[str, ...]


class Observer(Protocol):
    """The module `observe` of a backend; it never loads Pulumi.

    It may offer MeasuringObserver, PortObserver, LocalObserver or RemoteObserver as well.
    """

    def recorded(self, owner: str, resources: Iterable[Resource]) -> Recorded | None:
        """Return what the state records in this backend; None when it records nothing here."""
        ...

    def statuses(self, recorded: Sequence[Recorded]) -> Sequence[Sequence[ProcessStatus] | SymphonyError]:
        """Return the statuses of each experiment, or the error that prevents reading them."""
        ...

    def restart_reasons(self, recorded: Recorded) -> dict[str, str]:
        """Return path -> why the next `up` starts a process again although its settings did not change."""
        ...

    def watch(
        self, recorded: Recorded, *, patience: float = PATIENCE, limit: float = LIMIT
    ) -> Iterator[tuple[ProcessStatus, ...]]:
        """Yield the statuses at once and after every change, until waiting would change nothing more.

        Args:
            recorded: The experiment.
            patience: Seconds to wait for trouble that may pass.
            limit: Seconds to wait in all.
        """
        ...

    def logs(
        self,
        recorded: Recorded,
        paths: Sequence[str],
        *,
        follow: bool = False,
        since: float | None = None,
        tail: int | None = None,
    ) -> Iterator[LogLine]:
        """Yield the output of some processes, merged by time; `since` in seconds since the epoch."""
        ...

    def why(self, recorded: Recorded, path: str, name: str) -> Sequence[Link]:
        """Return the steps of a process to its state, up to the first one that failed.

        path may be declared and not recorded: it was never created. name: the experiment, for remedies.
        """
        ...

    def ensure_same_location(
        self, recorded: Recorded, name: str, connection: Mapping[str, str] | None = None
    ) -> Recorded:
        """Return the record, reached by the way of `connection` where that leads to the same place.

        Args:
            recorded: The experiment.
            name: Its name, for the message.
            connection: Where its next `up` would go.

        Raises:
            UserError: The processes are in another place than the one that would answer now.
        """
        ...

    def delete_orphans(self, owner: str, physical_name: str, recorded: Recorded | None = None) -> int:
        """Delete the objects of an interrupted run that no state records; return their number of processes.

        recorded: the record before the deletion, whose connection is used.
        """
        ...


@runtime_checkable
class MeasuringObserver(Protocol):
    """The further function of a backend that can measure what processes use."""

    def usage(self, recorded: Recorded) -> Mapping[str, Usage]:
        """Return path -> usage; processes that are not measured are left out."""
        ...


@runtime_checkable
class PortObserver(Protocol):
    """The further function of a backend whose services are ports of this machine."""

    def ports(self, recorded: Recorded, wanted: Collection[int]) -> Mapping[int, Port]:
        """Return port -> who listens there and who is connected, without connecting to it."""
        ...


@runtime_checkable
class LocalObserver(Protocol):
    """The further functions of a backend whose processes are on this machine."""

    def list_owned(self) -> Sequence[Owned]:
        """Return every experiment that lives on this machine, by its marker."""
        ...

    def stop_removed(self, owner: str, declared: Collection[str]) -> int:
        """After an `up`, stop the processes of a killed run that no state records; return how many."""
        ...

    def order_windows(self, owner: str, paths: Sequence[str]) -> None:
        """After an `up`, put the windows in the order of their declaration."""
        ...


@runtime_checkable
class RemoteLister(Protocol):
    """The further function of a backend that may have processes in several places."""

    def list_everywhere(self) -> Iterable[tuple[str, Owned | SymphonyError, str]]:
        """Return places with an experiment, or why one does not answer, and the command to remove it."""
        ...


@runtime_checkable
class RemoteObserver(Protocol):
    """The further functions of a backend that is reached over a network, where there may be several."""

    def connection_settings(self, settings: Mapping[str, Any], folder: Path) -> dict[str, str]:
        """Return the connection in the settings of a stack; folder: the folder of the project."""
        ...

    def terminate_early(self, recorded: Recorded) -> None:
        """End all processes at once when a deletion begins; the engine would end them one after another."""
        ...

    def ensure_reachable(self, recorded: Recorded) -> None:
        """Raise SymphonyError where a deletion cannot reach the backend, or would hit objects of others."""
        ...

    def deletion_blockers(self, recorded: Recorded) -> str:
        """Return the objects that block a deletion; empty where the backend does not report them."""
        ...
