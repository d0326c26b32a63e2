"""The folder of an experiment on the shared disk, through which `up` and the supervisor communicate.

    experiment@N.json         the declared processes and services; the highest N is the latest declaration
    wanted/PROCESS@N.json     the start of a process that `up` requests; the highest N is the latest request
    processes/PROCESS/        the launch files and the log of a process, and record.json with its outcome
    services.json             the address of each service
    services@N.sh             the variables of the services, which launch files read
    supervision.json          the saved state of the supervisor, for its restart in the same job
    usage.json                the CPU and memory of each process that runs
    job.json, ended.json      the job of the experiment, and why it ended

Declarations, requests, launch files and the services files that these read are written only once, with a
new name for each version, since a shared disk may cache the old content of a known name. Other files are
replaced as a whole, also those that another machine reads, such as record.json.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from symphony import files
from symphony.supervision import Declaration, Hold
from symphony_tmux import experiment_folder, names
from symphony_tmux.processes import launch_file
from symphony_tmux.processes.declared_code import DeclaredCode


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """The share of a process in the allocation; memory in MiB. The processes of a group are on one node.

    partition: empty for the default of the cluster.
    """

    cpus: float = 0
    memory: int = 0
    gpus: int = 0
    gpu_type: str = ""
    constraint: str = ""
    partition: str = ""
    group: str = ""

    def __str__(self) -> str:
        return f"{self.cpus:g} cpu, {self.gres or '0 gpu'}"

    @property
    def gres(self) -> str:
        """Return the GPUs of the share in the notation of Slurm; empty without GPUs."""
        return f"{self.gpu_kind}:{self.gpus}" if self.gpus else ""

    @property
    def gpu_kind(self) -> str:
        return f"gpu:{self.gpu_type}" if self.gpu_type else "gpu"


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A declared service and the process that binds it; port: 0 for any free port."""

    path: str
    port: int = 0


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """The experiment as last declared.

    supervision: its order, probes and ends, in which `tokens` stand for the ports of services.
    partitions: the partitions of the components of a heterogeneous job, in order; empty for an ordinary job.
    """

    owner: str
    name: str
    supervision: Declaration
    configuration: str = ""
    grace: float = 5.0
    shares: dict[str, Share] = {}
    services: dict[str, Service] = {}
    port_range: tuple[int, int] | None = None
    partitions: tuple[str, ...] = ()

    def component(self, path: str) -> int | None:
        """Return the component of the job that has a process; None in an ordinary job."""
        partitions = self.partitions
        return partitions.index(self.shares[path].partition) if partitions else None

    @property
    def tokens(self) -> dict[str, int]:
        return tokens(self.services)


def tokens(services: Iterable[str]) -> dict[str, int]:
    """Return a placeholder for the port of each service, since ports are chosen when the job has begun."""
    return {name: -number for number, name in enumerate(services, 1)}


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A requested start of a process; its launch file is written separately.

    code: its declared code, with the digest in the plan. uses: the services that it binds, connects to or
    exposes.
    """

    path: str
    attempt: int
    digest: str
    shell: str
    policy: str = "Never"
    cwd: str = ""
    code: DeclaredCode | None = None
    uses: tuple[str, ...] = ()


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a start; the supervisor alone writes it.

    state: a `held` process does not run, and hold says why; how a `lost` process ended is unknown.
    began: when it was started or held. addresses: the addresses with which it was started, of the services of
    other processes that it uses.
    """

    path: str
    attempt: int
    job: int
    state: Literal["held", "starting", "running", "ended", "lost"]
    why: str = ""
    ready: bool = False
    node: str = ""
    began: float = 0
    ended: float = 0
    exit: int = 0
    signal: int = 0
    hold: Hold | None = None
    addresses: dict[str, str] = {}

    @property
    def start(self) -> str:
        """Return the identifier of this start of the process."""
        return f"{self.attempt}.{self.began}"

    @property
    def is_over(self) -> bool:
        """Return whether the process needs no allocation any more.

        That is so if it has completed, or if an end of the experiment other than a failure stopped it.
        """
        if self.hold is not None:
            return self.hold.stopped in ("completed", "stopped")
        return self.state == "ended" and not (self.exit or self.signal)


class StepUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The CPU, in cores, and the resident memory, in bytes, of a process tree."""

    cpu: float
    memory: int


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a service: the address and the name of the node, and the port."""

    host: str
    port: int
    node: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """The job of an experiment."""

    number: int
    submitted: float


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The declared options of the job; a `:` separates the options of components."""

    options: tuple[str, ...]


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a job's supervisor, with its reason; by_itself: not by Slurm, which requeues no such job."""

    job: int
    why: str
    at: float
    by_itself: bool = False


class Folder:
    """The folder of one experiment."""

    def __init__(self, place: Path | str) -> None:
        self.place = Path(place)

    @property
    def processes(self) -> Path:
        return self.place / names.PROCESSES

    @property
    def starting(self) -> Path:
        """The file that exists until the supervisor of a job that has begun has read the records."""
        return self.place / "starting"

    def process(self, path: str) -> Path:
        return self.processes / names.folder_name(path)

    def pipes(self, path: str) -> tuple[Path, Path]:
        """Return the paths of the pipes to and from the step of a process."""
        return self.process(path) / "orders", self.process(path) / "events"

    def log(self, path: str) -> Path:
        return self.process(path) / "log"

    def launch_file(self, path: str, attempt: int) -> Path:
        return self.process(path) / f"launch@{attempt}.sh"

    def services_link(self, path: str, attempt: int) -> Path:
        """Return the link to the services, which the supervisor creates before it starts the process."""
        return self.process(path) / f"services@{attempt}.sh"

    def in_environment(self, path: str, attempt: int) -> list[str]:
        """Return the words to put before a command, so that it runs in the environment of a process."""
        return [launch_file.bash(), str(self.process(path) / f"beside@{attempt}.sh")]

    def make(self) -> None:
        """Create the folder for this user alone."""
        for place in (self.place, self.place / "wanted", self.processes):
            files.own_folder(place)

    def remove(self) -> None:
        files.remove(self.place)

    @property
    def submit_lock(self) -> Path:
        """The lock under which a job is submitted, or decides to end."""
        return self.place / "submit.lock"

    @property
    def batch_log(self) -> Path:
        """The output of the batch script, to which Slurm adds its own lines."""
        return self.place / "supervisor.log"

    # what `up` writes

    def experiment(self) -> Experiment | None:
        """Return the declaration; None if nothing is declared yet."""
        file = self._declaration()
        return experiment_folder.read_json(file, Experiment) if file is not None else None

    def declare(self, experiment: Experiment) -> None:
        """Write the declaration, unless it is unchanged."""
        if self.experiment() == experiment:
            return
        before = self._declaration()
        number = _number(before) + 1 if before is not None else 1
        files.replace(self.place / f"experiment@{number}.json", msgspec.json.encode(experiment))
        if before is not None:
            before.unlink(missing_ok=True)

    def requested_starts(self) -> dict[str, int]:
        """Return the latest requested start of each process."""
        result: dict[str, int] = {}
        for file in files.matching(self.place / "wanted", "*@*.json"):
            name, _, number = file.stem.rpartition("@")
            path = path_of(name)
            result[path] = max(int(number), result.get(path, 0))
        return result

    def stamp(self) -> object:
        """Return an object that changes with every declaration and every requested start."""
        return _json_names(self.place, "experiment@"), _json_names(self.place / "wanted")

    def request(self, path: str, attempt: int) -> Wanted | None:
        """Return a requested start; None if it is no longer requested."""
        return experiment_folder.read_json(self._request_file(path, attempt), Wanted)

    def want(self, wanted: Wanted) -> None:
        """Request a start of a process, in place of earlier requests."""
        files.replace(self._request_file(wanted.path, wanted.attempt), msgspec.json.encode(wanted))
        self._forget(wanted.path, below=wanted.attempt)

    def unwant(self, path: str) -> None:
        """Request the end of a process, by removing the requests of its starts."""
        self._forget(path)

    def _forget(self, path: str, below: int | None = None) -> None:
        for file in files.matching(self.place / "wanted", f"{names.folder_name(path)}@*.json"):
            if below is None or int(file.stem.rpartition("@")[2]) < below:
                file.unlink(missing_ok=True)

    def _request_file(self, path: str, attempt: int) -> Path:
        return self.place / "wanted" / f"{names.folder_name(path)}@{attempt}.json"

    # what the supervisor writes

    def record(self, path: str) -> Record | None:
        return experiment_folder.read_json(self.process(path) / "record.json", Record)

    def records(self) -> dict[str, Record]:
        """Return the record of each declared process that was started or held."""
        experiment = self.experiment()
        records = {path: self.record(path) for path in (experiment.shares if experiment else ())}
        return {path: record for path, record in records.items() if record is not None}

    def note(self, record: Record) -> None:
        """Write the record of a start."""
        files.replace(self.process(record.path) / "record.json", msgspec.json.encode(record))

    def addresses(self) -> dict[str, Address]:
        """Return the address of each service."""
        return experiment_folder.read_json(self.place / "services.json", dict[str, Address]) or {}

    def usage(self) -> dict[str, StepUsage]:
        """Return what each process that runs used at the last report."""
        return experiment_folder.read_json(self.place / "usage.json", dict[str, StepUsage]) or {}

    def note_usage(self, usage: dict[str, StepUsage]) -> None:
        files.replace(self.place / "usage.json", msgspec.json.encode(usage))

    def state(self) -> bytes:
        """Return the state that the supervisor saved; empty if it saved none."""
        return experiment_folder.content(self.place / "supervision.json")

    def note_state(self, state: bytes) -> None:
        files.replace(self.place / "supervision.json", state)

    def publish(self, addresses: dict[str, Address], variables: bytes, version: int) -> Path:
        """Write the address and the variables of each service; return the file that launch files read."""
        file = self.services(version)
        files.replace(file, variables)
        files.replace(self.place / "services.json", msgspec.json.encode(addresses))
        return file

    def services_version(self) -> int:
        """Return the last written version of the services; 0 if none was written."""
        written = files.matching(self.place, "services@*.sh")
        return max((int(file.stem.partition("@")[2]) for file in written), default=0)

    def services(self, version: int) -> Path:
        """Return the file that launch files read."""
        return self.place / f"services@{version}.sh"

    # the job

    def job(self) -> Submitted | None:
        return experiment_folder.read_json(self.place / "job.json", Submitted)

    def options(self) -> tuple[str, ...] | None:
        """Return the declared options of the job; None before the first declaration."""
        noted = experiment_folder.read_json(self.place / "options.json", Options)
        return noted.options if noted else None

    def note_options(self, options: tuple[str, ...]) -> None:
        files.replace(self.place / "options.json", msgspec.json.encode(Options(options=options)))

    def note_job(self, job: Submitted) -> None:
        files.replace(self.place / "job.json", msgspec.json.encode(job), durable=True)

    def ended(self) -> Ended | None:
        return experiment_folder.read_json(self.place / "ended.json", Ended)

    def forget_end(self) -> None:
        """Remove the reason why an earlier run of the job ended."""
        (self.place / "ended.json").unlink(missing_ok=True)

    def note_end(self, ended: Ended) -> None:
        files.replace(self.place / "ended.json", msgspec.json.encode(ended))

    def _declaration(self) -> Path | None:
        return max(files.matching(self.place, "experiment@*.json"), key=_number, default=None)


def _json_names(folder: Path, prefix: str = "") -> frozenset[str]:
    """Return the names of the JSON files of a folder that begin with a prefix; none without the folder."""
    try:
        # The supervisor asks four times a second: building hundreds of paths took 1 % of a CPU.
        every = os.listdir(folder)  # noqa: PTH208
    except FileNotFoundError:
        return frozenset()
    return frozenset(name for name in every if name.startswith(prefix) and name.endswith(".json"))


def _number(file: Path) -> int:
    return int(file.stem.rpartition("@")[2])


def path_of(name: str) -> str:
    """Return the path of the process whose folder has this name."""
    return name.replace(".", "/")


def folder_of(shared: Path | str, name: str, owner: str) -> Folder:
    """Return the folder of an experiment; experiments of equal names in other stacks have other folders."""
    return Folder(Path(shared) / f"{name}-{hashlib.sha256(owner.encode()).hexdigest()[:8]}")
