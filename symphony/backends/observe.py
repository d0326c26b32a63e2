"""The protocol of a backend's module `observe`, and the values that it returns."""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from symphony.errors import SymphonyError
from symphony.plan.names import DECLARED

# Seconds that a watch waits for trouble that may pass: no free machine, an image that cannot be pulled.
PATIENCE = 60.0
# Seconds that a watch waits in all: large images take long.
LIMIT = 600.0

State = Literal["running", "completed", "failed", "lost", "waiting", "blocked", "stopped", "unknown"]
# The type of the component of a process in a stack's state.
PROCESS_TYPE = "symphony:index:Process"


class Resource(Protocol):
    """A resource in a stack's state."""

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


class Recorded(msgspec.Struct, frozen=True):
    """An experiment as the state of its stack records it.

    Attributes:
        owner: The owner id on the backend's objects.
        physical_name: The name of the tmux session, the namespace or the Slurm job.
        processes: path -> the recorded inputs and outputs of the process, and its fingerprint.
        host: The machine it was started on, if the backend is local.
        connection: How to reach its backend, such as the Kubernetes context.
        objects: The path of each other object -> its uid.
        not_created: path -> the declared settings of each process that the last run did not create.
    """

    owner: str
    physical_name: str
    processes: Mapping[str, Mapping[str, Any]]
    host: str = ""
    connection: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    objects: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    not_created: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict[str, Mapping[str, Any]])


def not_created(resources: Iterable[Resource], paths: Container[str]) -> dict[str, Mapping[str, Any]]:
    """Return path -> the declared settings of each process of a state that is not in `paths`."""
    components = (resource for resource in resources if resource.type == PROCESS_TYPE)
    return {part.name: part.inputs.get(DECLARED) or {} for part in components if part.name not in paths}


class ProcessStatus(msgspec.Struct, frozen=True):
    """The status of a process.

    Attributes:
        path: The path of the process.
        state: The state.
        ready: Whether it runs and is ready.
        restarts: The number of restarts.
        why: The reason of the state: `exit 1`, `SIGSEGV`, `window closed`; may be empty.
        since: When the state began, in seconds since the epoch.
        last: How the previous attempt ended.
        pid: The process id, if it runs on this machine.
        words: The last lines of output of a process that failed or waits for a restart, if they are kept.
        exit_code: The exit code, 128 + n for signal n; None if it has not ended or the code is unknown.
        waits_for: The processes that it waits for, with the condition: `prepare (completed)`.
        node: The machine that it runs on, if there are several.
        code: The digest of its code when `up` started it; empty if it declares no code.
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


class Usage(msgspec.Struct, frozen=True):
    """The resources that a process and its children use; None if the backend does not report them.

    Attributes:
        cpu: Cores in use.
        memory: Bytes of resident memory.
        gpu: The GPUs in use, with the memory that it uses, and how busy they are: `0: 6.2G 97%`.
        node: The machine.
        cpu_time: CPU seconds so far; the difference of two measurements gives cpu.
        moment: Monotonic seconds of this measurement.
    """

    cpu: float | None = None
    memory: int | None = None
    gpu: str = ""
    node: str = ""
    cpu_time: float | None = None
    moment: float = 0.0


class Port(msgspec.Struct, frozen=True):
    """A port of this machine.

    Attributes:
        listener: The process that listens; empty for another program, None if no program listens.
        users: The processes that are connected to it.
    """

    listener: str | None
    users: frozenset[str]


class LogLine(msgspec.Struct, frozen=True):
    """A line of a process's output.

    ended: it is symphony's line that the process has ended. is_note: it is symphony's, about the log itself.
    """

    path: str
    text: str
    time: float | None = None
    ended: bool = False
    is_note: bool = False


class Link(msgspec.Struct, frozen=True):
    """A step of a process on its way to running, such as `scheduled`, `node-1`.

    broken: the process has come no further. more: details, such as the last lines of its log.
    """

    step: str
    what: str
    since: float | None = None
    broken: bool = False
    more: tuple[str, ...] = ()
    remedy: str = ""


class Owned(msgspec.Struct, frozen=True):
    """An experiment that a backend finds without its state, by the owner id on its objects.

    logs: path -> the log file of the process, if it is on this machine.
    """

    owner: str
    physical_name: str
    paths: tuple[str, ...]
    logs: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])


class Observer(Protocol):
    """A backend's module `observe`; it must not import Pulumi.

    It may also implement the protocols below: MeasuringObserver and those that follow it.
    """

    def recorded(self, owner: str, resources: Sequence[Resource]) -> Recorded | None:
        """Return the experiment that the state records in this backend; None if there is none."""
        ...

    def statuses(self, recorded: Sequence[Recorded]) -> Sequence[Sequence[ProcessStatus] | SymphonyError]:
        """Return the statuses of each experiment, or the error that prevents reading them."""
        ...

    def restart_reasons(self, recorded: Recorded) -> dict[str, str]:
        """Return path -> why the next `up` restarts a process although its settings did not change."""
        ...

    def watch(
        self, recorded: Recorded, *, patience: float = PATIENCE, limit: float = LIMIT
    ) -> Iterator[tuple[ProcessStatus, ...]]:
        """Yield the statuses at once and after every change, until waiting longer would not help.

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
        alive: Callable[[], bool] | None = None,
        since: float | None = None,
        tail: int | None = None,
    ) -> Iterator[LogLine]:
        """Yield the output of some processes, merged by time; `since` in seconds since the epoch.

        With alive, also new output until the processes have ended; alive() returns whether they live.
        """
        ...

    def why(self, recorded: Recorded, path: str, name: str) -> Sequence[Link]:
        """Return the steps of a process to its state, up to the one where it stopped or waits.

        A path that is declared but not recorded was never created. name: the experiment's, for remedies.
        """
        ...

    def ensure_same_location(
        self, recorded: Recorded, name: str, connection: Mapping[str, str] | None = None
    ) -> Recorded:
        """Return the record with a connection that reaches the place where the processes run.

        Args:
            recorded: The experiment.
            name: The experiment's name, for the message.
            connection: The connection of its next `up`, used if it leads to the same place.

        Raises:
            UserError: The settings now lead to another place than where the processes run.
        """
        ...

    def delete_owned(self, owner: str, physical_name: str, recorded: Recorded | None = None) -> int:
        """Delete every object of an owner, recorded or not; return how many processes ran.

        recorded: the record before the deletion, whose connection is used.
        """
        ...


@runtime_checkable
class MeasuringObserver(Protocol):
    """An optional function: measures the resources that processes use."""

    def usage(self, recorded: Recorded) -> Mapping[str, Usage]:
        """Return path -> usage of every measured process."""
        ...


@runtime_checkable
class PortObserver(Protocol):
    """An optional function, for backends whose services are ports of this machine."""

    def ports(self, recorded: Recorded, wanted: Collection[int]) -> Mapping[int, Port]:
        """Return port -> the process that listens and the connected processes, without connecting."""
        ...


@runtime_checkable
class AddressObserver(Protocol):
    """An optional function, for backends that choose the ports of services when their processes start."""

    def addresses(self, recorded: Recorded) -> Mapping[str, Mapping[str, Any]]:
        """Return service -> its host and port, for the services that have a port by now."""
        ...


@runtime_checkable
class LocalObserver(Protocol):
    """Optional functions, for backends whose processes run on this machine."""

    def list_owned(self) -> Sequence[Owned]:
        """Return every experiment that runs on this machine, by the owner id on its objects."""
        ...

    def stop_removed(self, owner: str, declared: Collection[str]) -> int:
        """Stop the processes of a killed run that no state records, after an `up`; return their number."""
        ...

    def order_windows(self, owner: str, paths: Sequence[str]) -> None:
        """Put the windows in the order of their declaration, after an `up`."""
        ...


@runtime_checkable
class RemoteLister(Protocol):
    """An optional function, for backends that may have processes in several places."""

    def list_everywhere(self) -> Iterable[tuple[str, Owned | SymphonyError, str]]:
        """Return (place, experiment or why the place does not answer, command that removes it)."""
        ...


@runtime_checkable
class RemoteObserver(Protocol):
    """Optional functions, for backends that are reached over a network."""

    def connection_settings(self, settings: Mapping[str, Any], folder: Path) -> dict[str, str]:
        """Return the connection in the settings of a stack; folder: the folder of the project."""
        ...

    def terminate_early(self, recorded: Recorded) -> None:
        """End processes when a deletion begins, if it would otherwise end them late; else do nothing."""
        ...

    def ensure_reachable(self, recorded: Recorded) -> None:
        """Raise SymphonyError if a deletion cannot reach the backend, or would delete others' objects."""
        ...

    def deletion_blockers(self, recorded: Recorded) -> str:
        """Return the objects that block a deletion, in words; empty if unknown."""
        ...
