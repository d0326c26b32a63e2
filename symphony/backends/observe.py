"""What a backend must offer to be observed, and the values it answers with."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from symphony.errors import SymphonyError

# How long a watch waits for trouble that may pass (no machine free, an image that does not come).
PATIENCE = 60.0
# How long it waits in all: large images take their time.
LIMIT = 600.0

State = Literal["running", "completed", "failed", "lost", "waiting", "blocked", "stopped", "unknown"]


class Resource(Protocol):
    """One resource of a stack's state, as the engine room reads it."""

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
    """What the state of one stack says of an experiment in this backend.

    processes: path -> the recorded inputs and outputs of the process, and its fingerprint.
    host:      the machine it was started on, where that matters.
    connection: how its backend is reached, where there is more than one.
    objects:   the path of what it has beside processes -> its uid.
    unmade:    the processes that the program declares and the last run did not make.
    """

    owner: str
    launched_as: str
    processes: Mapping[str, Mapping[str, Any]]
    host: str = ""
    connection: Mapping[str, str] = field(default_factory=dict[str, str])
    objects: Mapping[str, str] = field(default_factory=dict[str, str])
    unmade: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProcessStatus:
    """How one process is now.

    why:   what a person should know beside the state: `exit 1`, `SIGSEGV`, `window closed`; may be empty.
    since: when the state began, in seconds since the epoch.
    last:  how the attempt before this one ended.
    words: the last lines of what failed, where its backend keeps them beside its end.
    waits_for: the processes that it waits for, with the condition: `prepare (completed)`.
    node:  the machine that it was given, where there are several.
    code:  the digest of its code when `up` started it; empty where it declares none.
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

    @property
    def group(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class LogLine:
    """One line of a process's output; `ended` lines are symphony's own word that the process ended."""

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
    """What bears the mark of an owner on this machine, whatever the states say; paths: of its processes."""

    owner: str
    launched_as: str
    paths: tuple[str, ...]


class Observer(Protocol):
    """The half of a backend that reads what lives: its module `observe`. It never loads Pulumi.

    A module may offer LocalObserver or RemoteObserver as well.
    """

    def recorded(self, owner: str, resources: Iterable[Resource]) -> Recorded | None:
        """What the state records in this backend; None when it records nothing here."""
        ...

    def statuses(self, recorded: Sequence[Recorded]) -> Sequence[Sequence[ProcessStatus] | SymphonyError]:
        """How the processes of some experiments are, with one listing for all of them.

        In place of those of an experiment whose backend does not answer stands why.
        """
        ...

    def restart_reasons(self, recorded: Recorded) -> dict[str, str]:
        """path -> why the next `up` starts this process again although its settings did not change."""
        ...

    def watch(
        self, recorded: Recorded, *, patience: float = PATIENCE, limit: float = LIMIT
    ) -> Iterator[tuple[ProcessStatus, ...]]:
        """How the processes are, at once and again whenever that changes, until they run, have ended, or will
        not start by waiting.

        patience: how many seconds to wait for trouble that may pass; limit: how many to wait in all.
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
        """The output of some processes, merged by time; `since` in seconds since the epoch."""
        ...

    def why(self, recorded: Recorded, path: str, name: str) -> Sequence[Link]:
        """How a process came to be as it is, up to the first step that it did not take, which comes last.

        path may be declared and not recorded: it was never made; name: of the experiment, for the remedies.
        """
        ...

    def ensure_same_location(
        self, recorded: Recorded, name: str, connection: Mapping[str, str] | None = None
    ) -> Recorded:
        """The record, reached by another way where `connection` says one to the same place.

        UserError: the processes are in another place than the one that would answer now.
        name: of the experiment, for the message; connection: where its next `up` would go.
        """
        ...

    def delete_orphans(self, owner: str, launched_as: str, recorded: Recorded | None = None) -> int:
        """Take down what an interrupted run left that no state knows; how many processes that were.

        recorded: what the state said before it was emptied, for how to reach the backend.
        """
        ...


@runtime_checkable
class LocalObserver(Protocol):
    """What a backend offers as well whose processes are on this machine."""

    def list_owned(self) -> Sequence[Owned]:
        """Return every experiment that lives on this machine, by its marker."""
        ...

    def stop_removed(self, owner: str, declared: Collection[str]) -> int:
        """After an `up`, stop what a killed run started and the state never learned of; return how many."""
        ...

    def order_windows(self, owner: str, paths: Sequence[str]) -> None:
        """After an `up`, put the windows in the order of their declaration."""
        ...


@runtime_checkable
class RemoteObserver(Protocol):
    """What a backend offers as well that is reached over a network, where there may be several."""

    def connection_settings(self, settings: Mapping[str, Any], folder: Path) -> dict[str, str]:
        """How the settings of a stack say to reach the backend, for where the state records nothing.

        folder: that of the project, to which the paths of the settings are relative.
        """
        ...

    def terminate_early(self, recorded: Recorded) -> None:
        """The deletion of an experiment has begun: let everything end at once that would end in turn."""
        ...

    def ensure_reachable(self, recorded: Recorded) -> None:
        """Before a deletion. SymphonyError: the backend does not answer, so the engine would wait in vain.

        UserError: the engine would delete by its name what another made.
        """
        ...

    def deletion_blockers(self, recorded: Recorded) -> str:
        """What a deletion that failed waits for, in the backend's words; nothing when it does not say."""
        ...
