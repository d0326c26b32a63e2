"""Runs the processes of one experiment as steps of its job: `python -m symphony_slurm.supervisor FOLDER`.

The batch script of the job starts it, and it carries out what symphony.supervision decides. It reads from a
folder on the shared disk what to run, and writes there what became of it, because the `symphony` command that
asked for it has ended. When the supervisor ends, so does the job, and Slurm ends every step. If it is killed,
the batch script starts it again, with the argument `again`, and it takes over the steps. These have kept
running, because each srun holds both ends of its pipes.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from pathlib import Path
from types import FrameType

import msgspec
import psutil

from caraml import service_env
from symphony import files
from symphony.errors import SymphonyError
from symphony.supervision import Declaration, Fact, Hold, State, Supervisor, Wait, read_state
from symphony_slurm import commands
from symphony_slurm.folder import (
    Address,
    Ended,
    Experiment,
    Folder,
    Record,
    Share,
    StepUsage,
    Wanted,
    path_of,
)
from symphony_slurm.observe import end_reason
from symphony_slurm.placement import Nodes
from symphony_tmux import logs, variables
from symphony_tmux.processes import start as tmux_start
from symphony_tmux.processes.declared_code import CHANGED

# Seconds between two reads of the folder.
PERIOD = 0.25
# Seconds between two checks of the processes, if no step reports an event.
LOOK = 1.0
# The largest share of a processor that these checks take.
PROCESSOR_SHARE = 0.02
# Seconds between two reports of the CPU and memory of the steps.
USAGE = 10.0
# Seconds that an experiment keeps its nodes, for an edit, after all processes ended and some failed.
LINGER = 600.0
# The range of the ports: below the ephemeral ports of Linux.
RANGE = (20000, 29999)
_DEADLINE = 60.0
# Variables that Slurm sets for the batch step only, or for the GPUs of its component.
_BATCH_STEP_VARIABLES = frozenset(
    {
        *("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"),
        *("HOSTNAME", "ENVIRONMENT"),
    }
)
_WHY = {
    signal.SIGTERM: "it was cancelled or preempted, or reached its time limit",
    signal.SIGUSR1: "its experiment was deleted, or the last `up` needed another allocation",
}
# slurmstepd's line about the end of a job, with its cause; one older than _LAST_RUN is of an earlier run.
_CANCELLED = re.compile(r"\*\*\* JOB (\d+) ON \S+ CANCELLED AT (\S+)(?: DUE TO ([A-Z ]+?))?(?:,.*)? \*\*\*")
_LAST_RUN = timedelta(minutes=5)
_TIME_LIMIT = "it reached its time limit"
_CAUSES = {
    "": "it was cancelled",
    "JOB REQUEUE": "it was requeued",
    "NODE FAILURE": "one of its nodes failed",
    "PREEMPTION": "it was preempted",
    "TIME LIMIT": _TIME_LIMIT,
}
# The words of slurmstepd and srun about a step that used too much memory.
_MEMORY = re.compile(r"oom.kill|out of memory|exceeded.*memory limit", re.IGNORECASE)
# srun's message if a node accepts no step, how often such a start is retried, and after how many seconds.
_REFUSED, _MOST_REFUSALS, _REFUSED_PAUSE = "Unable to create step", 20, 1.0
_SUPERVISE = Path(tmux_start.__file__).with_name("supervise.pl")
# Run on a node, as a step, with the arguments FIRST LAST START STEP TAKEN PORTS: prints a port for each of
# PORTS. It keeps a port that is free. Else, and for 0, it takes a free one from FIRST to LAST; the search
# begins at FIRST + START, in steps of STEP. Those of TAKEN belong to services that may listen only later.
_FREE_PORTS = """
import socket, sys

def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
            probe.listen()
        except OSError:
            return False
    return True

first, last, at, step = map(int, sys.argv[1:5])
taken, kept = ([int(port) for port in ports.split()] for ports in sys.argv[5:])
for port in kept:
    for _ in range(last - first + 1):
        if port and port not in taken and is_free(port):
            break
        port = first + at % (last - first + 1)
        at += step
    taken.append(port)
    print(port)
"""
# No resources, for a step that runs beside the step of a process.
_NO_SHARE = Share()


@dataclass
class Running:
    """A step that runs: its srun, the pipes to it and from it, and the record of its process.

    since: the start of the process, in monotonic seconds. hold: why it is to end and then to be held.
    ports: those on which it listens. activity: its CPU seconds and bytes of output, as last reported.
    reported: the time of that report. usage: its CPU and memory between the last two reports.
    """

    record: Record
    srun: subprocess.Popen[bytes] | psutil.Process
    orders: int
    events: int
    since: float = 0.0
    unread: bytes = b""
    asked_to_end: float = 0.0
    hold: Hold | None = None
    ports: set[int] = field(default_factory=set[int])
    activity: tuple[float, int] | None = None
    reported: float = 0.0
    usage: StepUsage | None = None
    troubles: list[str] = field(default_factory=list[str])


class Slurm(logs.Outputs):
    """The processes of one experiment in a job, for its supervisor."""

    def __init__(self, folder: Folder, job: int, nodes: Nodes) -> None:
        super().__init__(folder.log)
        self._folder, self._job, self._nodes = folder, job, nodes
        self._experiment = Experiment(owner="", name="", supervision=Declaration(name="", members={}))
        self._supervisor: Supervisor | None = None
        # Another job, or another run of this one, keeps only the end for which processes are held.
        end = read_state(folder.state()).end
        end = msgspec.structs.replace(end, at=self.now()) if end is not None else None
        self._state = msgspec.json.encode(State(boot=self.boot(), end=end))
        self._running: dict[str, Running] = {}
        self._records: dict[str, Record] = {}
        self._unwritten: set[str] = set()
        self._refusals: dict[str, int] = {}
        self._due: list[Wanted] = []
        self._addresses: dict[str, Address] = {}
        self._version, self._services = folder.services_version(), Path()
        self._wanted: dict[str, int] = {}
        self._seen: object = None
        # When it last waited for a signal, and when it checks the processes again.
        self._awaited = self._next = 0.0
        self._selector = selectors.DefaultSelector()
        self._why = ""
        self._last_active = time.monotonic()
        self._measured = 0.0

    def take_over(self) -> None:
        """Take over the saved state and the running steps of a supervisor of this job that was killed."""
        self._state = self._folder.state()
        self._addresses, self._services = self._folder.addresses(), self._folder.services(self._version)
        self._records = self._folder.records()
        for path, attempt, node, srun in self._sruns():
            record = self._records.get(path)
            if record is None or record.attempt != attempt or record.hold is not None:
                record = self._starting(path, attempt, node)
            running = self._listen(_as_logged(record, self._folder.log(path)), srun)
            if not srun.is_running():
                # A reader gets no end of file from a pipe that never had a writer.
                self._forget(running)
        for path, record in [*self._records.items()]:
            if record.state in ("starting", "running") and path not in self._running:
                self._note(_after_its_end(_as_logged(record, self._folder.log(path))))

    def _sruns(self) -> Iterator[tuple[str, int, str, psutil.Process]]:
        """Yield the path, the attempt and the node of each step of this job that runs, and its srun."""
        for srun in psutil.process_iter(["name", "cmdline"]):
            words: list[str] = srun.info["cmdline"] or []
            if srun.info["name"] != "srun" or str(_SUPERVISE) not in words:
                continue
            place, attempt = words[words.index(str(_SUPERVISE)) + 1 :][:2]
            with suppress(psutil.Error):
                is_own = srun.environ().get("SLURM_JOB_ID") == str(self._job)
                # srun starts a second srun, which ends with the first.
                if is_own and Path(place).parent == self._folder.processes and not _is_srun(srun.parent()):
                    node = next(word.partition("=")[2] for word in words if word.startswith("--nodelist="))
                    yield path_of(Path(place).name), int(attempt), node, srun

    def supervise(self) -> None:
        """Start the requested processes and end the others, until all have completed or the job must end."""
        for number in _WHY:
            signal.signal(number, self._stop)
        over = ""
        while not self._why:
            try:
                over = self._do_due_work()
                self._write()
                if over and self._ends(over):
                    self._why = self._why or over
                self._note_usage()
            except (OSError, ValueError, SymphonyError, subprocess.SubprocessError) as error:
                # The disk is full, also for the log, or a node does not answer.
                with suppress(OSError):
                    sys.stderr.write(f"{error}; the supervisor tries again\n")
                time.sleep(1)
            self._hear(PERIOD)
        self._end_all()
        with suppress(OSError, SymphonyError):
            self._write()
            if self._why == over:
                self._remove_secrets()
                return
            self._note_end(self._why)
            if self._why == _WHY[signal.SIGTERM]:
                job = commands.jobs(self._experiment.configuration).get(self._job)
                self._note_end(_slurm_reason(_last_lines(self._folder.batch_log), self._job, job))

    def _note_usage(self) -> None:
        """Write what the steps use, if that is due, and ask them for the next report."""
        if self._running and self.now() >= self._measured + USAGE:
            self._measured = self.now()
            every = self._running.items()
            self._folder.note_usage({path: running.usage for path, running in every if running.usage})
            self.activity()

    def _ends(self, why: str) -> bool:
        """Record that the job ends by itself; return False if an `up` has just requested a start."""
        with files.locked(self._folder.submit_lock, seconds=60, what=f"job {self._job}"):
            if self._folder.stamp() != self._seen:
                return False
            self._note_end(why, by_itself=True)
            return True

    def _note_end(self, why: str, *, by_itself: bool = False) -> None:
        self._folder.note_end(Ended(job=self._job, why=why, at=time.time(), by_itself=by_itself))

    def _remove_secrets(self) -> None:
        """Remove the secrets of processes that have ended: a later start writes a file of its own.

        Another job starts held processes again, a requeued job also lost ones, with the files that they have.
        """
        for path, record in self._records.items():
            if record.state == "ended":
                files.remove(self._folder.process(path) / f"secrets@{record.attempt}.sh")

    def _do_due_work(self) -> str:
        """Do the due work; return the reason why the job must end, empty while it continues."""
        if (stamp := self._folder.stamp()) != self._seen:
            self._read()
            self._seen = stamp
        elif time.monotonic() < self._next:
            return ""
        if self._supervisor is None:
            return ""
        began = time.process_time()
        for path, running in self._running.items():
            if running.asked_to_end or self._wanted.get(path) != running.record.attempt:
                self._end(running)
        self._due.clear()
        has_started = self._supervisor.step()
        if has_started:
            self._start_due()
        is_open = self._record_readiness() or any(running.asked_to_end for running in self._running.values())
        pause = (time.process_time() - began) / PROCESSOR_SHARE
        self._next = time.monotonic() + max(PERIOD if has_started or is_open else LOOK, pause)
        return self._over()

    def _read(self) -> None:
        """Read the declaration and the requested starts."""
        if (experiment := self._folder.experiment()) is None:
            return
        # A killed run may leave starts of processes that the program no longer declares.
        wanted = self._folder.requested_starts()
        self._wanted = {path: n for path, n in wanted.items() if path in experiment.shares}
        if experiment != self._experiment:
            self._experiment = experiment
            self._nodes.place(experiment.shares, experiment.partitions)
            self._renew_supervisor()

    def _renew_supervisor(self) -> None:
        """Make a symphony.supervision.Supervisor for the declaration, with the addresses of its services."""
        known = self._addresses
        ports = {token: known[name].port for name, token in self._experiment.tokens.items() if name in known}
        hosts = {path: self._nodes.hosts[self._nodes.node_of(path)] for path in self._experiment.shares}
        self._supervisor = Supervisor(self, self._experiment.supervision.with_addresses(ports, hosts))

    def _over(self) -> str:
        """Return the reason why the job must end; empty while it continues."""
        records = {path: self._records.get(path) for path in self._experiment.shares}
        current = [
            record for path, record in records.items() if record and record.attempt == self._wanted.get(path)
        ]
        holds = [record.hold for record in current if record.hold is not None]
        is_waiting = any(hold.state == "waiting" for hold in holds)
        if self._running or is_waiting or len(current) < len(records):
            self._last_active = time.monotonic()
            return ""
        if all(record.is_over for record in current):
            # A blocked process gives only its own reason, so it sorts last.
            stopped = sorted((hold.blocked, hold.why) for hold in holds if hold.stopped == "stopped")
            return stopped[0][1] if stopped else "its processes have completed"
        return "no process was running any more" if time.monotonic() - self._last_active > LINGER else ""

    # queries of symphony.supervision

    def now(self) -> float:
        return time.monotonic()

    def boot(self) -> str:
        return str(self._job)

    def load(self) -> bytes:
        return self._state

    def save(self, state: bytes) -> None:
        self._folder.note_state(state)
        self._state = state

    def facts(self) -> Mapping[str, Fact]:
        facts = {path: self._fact(path, attempt) for path, attempt in self._wanted.items()}
        return {path: fact for path, fact in facts.items() if fact is not None}

    def _fact(self, path: str, attempt: int) -> Fact | None:
        if (running := self._running.get(path)) is not None:
            record = running.record
            if record.attempt != attempt or running.asked_to_end:
                return Fact("ending", record.start, running.since, hold=running.hold)
            if record.state == "starting":
                return None
            return Fact("running", "" if record.ended else record.start, running.since)
        record = self._record(path)
        if record is None or record.attempt != attempt or record.state not in ("held", "ended", "lost"):
            return Fact("held", hold=Hold(waits_for=self._waits(path), since=self.now()))
        if record.hold is not None:
            return Fact("held", hold=msgspec.structs.replace(record.hold, waits_for=self._waits(path)))
        code = 128 + record.signal if record.signal else record.exit
        state = "lost" if record.state == "lost" else "failed" if code else "completed"
        return Fact(state, record.start, why=record.why or end_reason(record), exit=code)

    def _record(self, path: str) -> Record | None:
        if path not in self._records:
            known = self._folder.record(path)
            # A requeued job, or a new one, starts all other processes again.
            is_stopped = known is not None and known.hold is not None and known.hold.stopped
            if known is None or not (is_stopped or known.state in ("ended", "lost")):
                return None
            self._records[path] = known
        return self._records[path]

    def _waits(self, path: str) -> tuple[Wait, ...]:
        return self._experiment.supervision.members[path].waits_for

    def missing_ports(self, path: str, ports: Iterable[int]) -> list[int]:
        """Return the ports on which the process does not listen yet, as its node reports."""
        running = self._running.get(path)
        return [port for port in ports if running is None or port not in running.ports]

    def activity(self) -> Mapping[str, tuple[float, int]]:
        """Ask all steps for their activity; return what they answered to the call before."""
        for path in self._running:
            self._say(path, "activity")
        return {
            path: running.activity for path, running in self._running.items() if running.activity is not None
        }

    def run(self, path: str, argv: tuple[str, ...], timeout: float) -> str:
        """Run a command beside a process, as a further step; return the reason of a failure, or ""."""
        if (running := self._running.get(path)) is None:
            return "the process does not run"
        record = running.record
        words = [*self._srun(path, record.node), *self._folder.in_environment(path, record.attempt), *argv]
        null = subprocess.DEVNULL
        with subprocess.Popen(words, stdin=null, stdout=null, stderr=null) as srun:
            try:
                code = srun.wait(timeout)
            except subprocess.TimeoutExpired:
                # Slurm kills the step when its srun ends.
                srun.terminate()
                return f"{argv[0]} did not end within {timeout:g} s"
        return "" if code == 0 else f"{argv[0]}: exit {code}"

    # actions for symphony.supervision

    def hold(self, path: str, hold: Hold) -> None:
        if (running := self._running.get(path)) is not None:
            running.hold = hold
            self._end(running)
            return
        known, attempt = self._records.get(path), self._wanted[path]
        before = known.hold if known is not None and known.attempt == attempt else None
        is_same = before is not None and before.state == hold.state
        self._note(
            Record(
                path=path,
                attempt=attempt,
                job=self._job,
                state="held",
                node=self._nodes.node_of(path),
                began=known.began if known is not None and is_same else time.time(),
                hold=hold,
            )
        )

    def release(self, path: str) -> str:
        request = self._folder.request(path, self._wanted[path])
        if request is None:
            return ""
        if request.cwd and not Path(request.cwd).is_dir():
            return f"the start folder {request.cwd} does not exist on {os.uname().nodename}"
        if request.code is not None and request.code.has_changed():
            return CHANGED
        self._due.append(request)
        return ""

    def restart(self, path: str) -> None:
        self._say(path, "restart")

    def tell(self, path: str, line: str) -> None:
        self._say(path, f"tell {line}")

    def _say(self, path: str, line: str) -> None:
        """Send a line to the process's own supervisor on its node."""
        if (running := self._running.get(path)) is not None:
            with suppress(OSError):
                os.write(running.orders, f"{line}\n".encode())

    def _record_readiness(self) -> bool:
        """Record which processes are ready; return whether any process is not."""
        not_ready = self._supervisor.not_ready() if self._supervisor is not None else {}
        for path, running in self._running.items():
            if running.record.state == "running" and not running.record.ended:
                why = not_ready.get(path, "")
                self._change(running, why=why or self._moved(running.record), ready=not why)
        return bool(not_ready)

    def _moved(self, record: Record) -> str:
        """Return which services have other addresses than when the process started; empty if none has."""
        moved = [
            f"{name} has moved to {address}"
            for name, first in record.addresses.items()
            if (address := self._addresses.get(name)) is not None and str(address) != first
        ]
        return ", ".join(moved)

    # starts

    def _start_due(self) -> None:
        """Start the released processes, at the ports that are free now."""
        self._find_ports({request.path for request in self._due})
        for request in self._due:
            place = self._folder.process(request.path)
            link = self._folder.services_link(request.path, request.attempt)
            link.unlink(missing_ok=True)
            link.symlink_to(os.path.relpath(self._services, place))
            ports = [
                address.port
                for name, address in self._addresses.items()
                if self._experiment.services[name].path == request.path
            ]
            node = self._nodes.node_of(request.path)
            words = [
                *self._srun(request.path, node, self._experiment.shares[request.path]),
                f"--job-name={request.path.replace('/', '.')}",
                *(tmux_start.perl(), str(_SUPERVISE), str(place), str(request.attempt), request.shell),
                *(str(tmux_start.LOG_CAP), request.policy, str(self._experiment.grace), os.uname().machine),
                *map(str, sorted(ports)),
            ]
            addresses = {
                name: str(self._addresses[name])
                for name in request.uses
                if name in self._addresses and self._experiment.services[name].path != request.path
            }
            record = self._starting(request.path, request.attempt, node)
            self._run_step(msgspec.structs.replace(record, addresses=addresses), words)

    def _starting(self, path: str, attempt: int, node: str) -> Record:
        return Record(path=path, attempt=attempt, job=self._job, state="starting", node=node)

    def _run_step(self, record: Record, words: list[str]) -> None:
        pipes = self._folder.pipes(record.path)
        for pipe in pipes:
            pipe.unlink(missing_ok=True)
            os.mkfifo(pipe, 0o600)
        # Opens both ends of each pipe, so that the pipes survive the end of this supervisor.
        orders, events = (os.open(pipe, os.O_RDWR) for pipe in pipes)
        try:
            env = {**os.environ, "SYMPHONY_STEP": "1"}
            self._listen(record, subprocess.Popen(words, env=env, stdin=orders, stdout=events, stderr=events))
        finally:
            os.close(orders)
            os.close(events)

    def _listen(self, record: Record, srun: subprocess.Popen[bytes] | psutil.Process) -> Running:
        """Read the events of a step, and ask it for the ports on which its process listens."""
        self._note(record)
        orders, events = self._folder.pipes(record.path)
        to_it, from_it = (
            os.open(orders, os.O_RDWR | os.O_NONBLOCK),
            os.open(events, os.O_RDONLY | os.O_NONBLOCK),
        )
        age = time.time() - record.began if record.began else 0
        running = self._running[record.path] = Running(record, srun, to_it, from_it, self.now() - age)
        self._selector.register(from_it, selectors.EVENT_READ, running)
        self._say(record.path, "ports")
        return running

    def _forget(self, running: Running) -> None:
        """Stop reading the events of a step that has ended."""
        del self._running[running.record.path]
        self._selector.unregister(running.events)
        os.close(running.orders)
        os.close(running.events)

    def _srun(self, path: str, node: str, share: Share = _NO_SHARE) -> list[str]:
        """Return the beginning of the command of a step on the node of a process."""
        component = self._experiment.component(path)
        # Steps share the nodes: the allocation already counts the requests of the processes.
        words = ["srun", "--overlap", "--exact", "-N1", "-n1", f"-c{max(1, ceil(share.cpus))}", "--mem=0"]
        return [
            *words,
            *([] if component is None else [f"--het-group={component}"]),
            f"--nodelist={node}",
            f"--gres={share.gres or 'none'}",
            "--export=ALL",
            "--kill-on-bad-exit=0",
        ]

    # services

    def _find_ports(self, starting: set[str]) -> None:
        """Choose a port for each service without one, and check the ports of processes that start."""
        wanted: dict[str, list[str]] = {}
        services, hosts = self._experiment.services, self._nodes.hosts
        found = {name: address for name, address in self._addresses.items() if name in services}
        # The services with a port first: a new one must not take it.
        for name, service in sorted(services.items(), key=lambda item: item[0] not in found):
            known, node = found.get(name), self._nodes.node_of(service.path)
            if node and service.port:
                found[name] = Address(host=hosts[node], port=service.port, node=node)
            elif node and (known is None or known.node != node or service.path in starting):
                wanted.setdefault(node, []).append(name)
        for node, ports in self._ports(wanted, found).items():
            for name, port in zip(wanted[node], ports, strict=True):
                found[name] = Address(host=hosts[node], port=port, node=node)
        if found != self._addresses or self._services == Path():
            self._version += 1
            self._addresses = found
            text = variables.content(service_variables(found))
            self._services = self._folder.publish(found, text, self._version)
            self._renew_supervisor()

    def _ports(self, wanted: Mapping[str, list[str]], known: Mapping[str, Address]) -> dict[str, list[int]]:
        """Return a free port on its node for each service of a node; all nodes are asked at once."""
        first, last = self._experiment.port_range or RANGE
        asked: dict[str, subprocess.Popen[str]] = {}
        for node, names in wanted.items():
            # The nodes choose from disjoint sets of ports, and each job begins at a different port.
            start = self._nodes.names.index(node) + self._job * 97 * len(self._nodes.names)
            numbers = [first, last, start % (last - first + 1), len(self._nodes.names)]
            taken = [known[name].port for name in known.keys() - set(names) if known[name].node == node]
            kept = [known[name].port if name in known else 0 for name in names]
            path = self._experiment.services[names[0]].path
            python = [sys.executable, "-I", "-S", "-c", _FREE_PORTS]
            lists = [" ".join(map(str, ports)) for ports in (taken, kept)]
            words = [*self._srun(path, node), *python, *map(str, numbers), *lists]
            asked[node] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        deadline = time.monotonic() + _DEADLINE
        try:
            said = {
                node: srun.communicate(timeout=max(1.0, deadline - time.monotonic()))[0]
                for node, srun in asked.items()
            }
        finally:
            for srun in asked.values():
                srun.kill()
        return {node: [int(port) for port in text.split()] for node, text in said.items()}

    # ends

    def _end(self, running: Running) -> None:
        """End the process through its own supervisor on the node, which also ends a process that resists."""
        if not running.asked_to_end:
            running.asked_to_end = self.now()
            # An `up` may have changed the grace since the start.
            self._say(running.record.path, f"end {self._experiment.grace}")
        elif self.now() - running.asked_to_end > self._experiment.grace + 10:
            # srun makes Slurm kill the step.
            with suppress(psutil.Error):
                running.srun.terminate()

    def _end_all(self) -> None:
        deadline = self.now() + self._experiment.grace + 20
        while self._running and self.now() < deadline:
            for running in self._running.values():
                self._end(running)
            self._hear(PERIOD)

    def _stop(self, number: int, _: FrameType | None) -> None:
        self._why = self._why or _WHY[signal.Signals(number)]

    # events of the steps

    def _hear(self, seconds: float) -> None:
        """Read the events of steps, if the first comes within this many seconds."""
        for key, _ in self._selector.select(seconds):
            running: Running = key.data
            data = b""
            with suppress(BlockingIOError):
                data = os.read(key.fd, 1 << 16)
            *lines, running.unread = (running.unread + data).split(b"\n")
            for line in lines:
                self._record_event(running, line.decode(errors="replace"))
            if not data:
                self._record_end(running)

    def _record_event(self, running: Running, line: str) -> None:
        """Record an event of a step, `TIME KIND [NUMBER...]`; srun's own lines are troubles."""
        moment, _, event = line.partition(" ")
        kind, *numbers = event.split()[:4] or [""]
        if not moment.replace(".", "", 1).isdecimal() or not all(map(str.isdecimal, numbers)):
            running.troubles.append(line)
            return
        if kind == "activity":
            self._measure(running, *map(int, numbers))
            return
        self._next = 0.0
        at, number = float(moment), int(numbers[0]) if numbers else 0
        if kind in ("start", "again"):
            running.since = self.now()
            running.ports.clear()
            self._refusals.pop(running.record.path, None)
            self._change(running, state="running", began=at, ended=0, exit=0, signal=0, ready=False, why="")
        elif kind == "listen":
            running.ports.add(number)
        elif kind in ("exit", "signal"):
            self._change(running, **{kind: number}, ended=at, ready=False)

    def _measure(self, running: Running, ticks: int, printed: int, pages: int) -> None:
        """Take in a report of CPU time, bytes of output and memory."""
        seconds, now = ticks / os.sysconf("SC_CLK_TCK"), self.now()
        if running.activity is not None and now > running.reported:
            # The CPU time of a tree falls when a child ends without being waited for.
            cpu = max(0.0, seconds - running.activity[0]) / (now - running.reported)
            running.usage = StepUsage(cpu=round(cpu, 3), memory=pages * os.sysconf("SC_PAGE_SIZE"))
        running.activity, running.reported = (seconds, printed), now

    def _change(self, running: Running, **changes: object) -> None:
        running.record = msgspec.structs.replace(running.record, **changes)
        self._note(running.record)

    def _record_end(self, running: Running) -> None:
        """Record the end of a step, of its process or its node; hold the process if that was requested."""
        self._next = 0.0
        with suppress(psutil.Error):
            running.srun.wait()
        record = running.record
        self._forget(running)
        is_killed = bool(record.signal) or record.exit > 128 or not record.ended
        if is_killed and not running.asked_to_end:
            self._await_signal()
        # Not by the share of the process: an `up` that removes the process has removed its share.
        is_in_component = bool(self._experiment.partitions)
        if not (self._why or running.asked_to_end) and (is_killed or is_in_component):
            self._why = self._why_broken()
        if self._why:
            # The end of the job ended the process: the next job starts it again.
            return
        if running.hold is not None and self._wanted.get(record.path) == record.attempt:
            self.hold(record.path, running.hold)
        elif record.ended:
            self._change(running, state="ended", why=_out_of_memory(running.troubles))
        elif _REFUSED in "".join(running.troubles) and self._refusals.get(record.path, 0) < _MOST_REFUSALS:
            # A node that has just come back may refuse its first steps.
            self._refusals[record.path] = self._refusals.get(record.path, 0) + 1
            self._next = time.monotonic() + _REFUSED_PAUSE
        else:
            # The step never began, or ended without an event: its node failed, or it was killed.
            why = _out_of_memory(running.troubles) or _trouble(running.troubles)
            self._change(running, state="lost", ended=time.time(), why=why, ready=False)

    def _why_broken(self) -> str:
        """Return why the job cannot go on, although Slurm has sent no signal; empty if it can.

        After the failure of a node, Slurm may end all steps some seconds before this supervisor. If a
        component has ended, such as by `scancel 12+1`, Slurm lets the others run, but starts no step in it.
        """
        with suppress(SymphonyError):
            job = commands.jobs(self._experiment.configuration).get(self._job)
            if job is None:
                return ""
            if job.has_ended or any(part.is_waiting for part in (job, *job.components)):
                return _WHY[signal.SIGTERM]
            for number, component in enumerate(job.components, 1):
                if component.has_ended:
                    partition = self._experiment.partitions[number] or "by default"
                    return f"its component {self._job}+{number} (partition {partition}) is {component.state}"
        return ""

    def _await_signal(self) -> None:
        """Wait a moment: a job that Slurm ends may lose processes before this supervisor gets the signal."""
        if self.now() - self._awaited > 1:
            time.sleep(0.3)
            self._awaited = self.now()

    def _note(self, record: Record) -> None:
        if self._records.get(record.path) != record:
            self._records[record.path] = record
            self._unwritten.add(record.path)

    def _write(self) -> None:
        for path in [*self._unwritten]:
            files.own_folder(self._folder.process(path))
            self._folder.note(self._records[path])
            self._unwritten.discard(path)


def service_variables(addresses: Mapping[str, Address]) -> dict[str, str]:
    """Return the SYMPH_* variables of all services."""
    result: dict[str, str] = {}
    for name, address in addresses.items():
        result |= service_env.service_variables(name, address.host, address.port)
    return result


def _slurm_reason(output: str, number: int, job: commands.Job | None) -> str:
    """Return why Slurm ends the job, as its last line in the output of the batch script says."""
    # Slurm shows an ending job as running only before its time limit, when it has sent the signal that
    # --signal requests (see allocations.py) and has printed no line yet.
    if job is not None and job.state == "RUNNING":
        return _TIME_LIMIT
    now = datetime.now()
    for match in reversed([*_CANCELLED.finditer(output)]):
        with suppress(ValueError):
            # A line of an earlier run of the job says nothing about this end.
            if match[1] == str(number) and abs(now - datetime.fromisoformat(match[2])) < _LAST_RUN:
                return _CAUSES.get(match[3] or "", f"Slurm ended it: {match[3]}")
    return "it was cancelled or preempted"


def _last_lines(log: Path) -> str:
    return logs.last(log, 20).decode(errors="replace")


def _is_srun(process: psutil.Process | None) -> bool:
    return process is not None and process.name() == "srun"


def _as_logged(record: Record, log: Path) -> Record:
    """Return a record with the last start and its end from the log."""
    number, began, end = [(0, 0.0, None), *logs.attempts(log)][-1]
    if number != record.attempt or not began:
        return record
    running = msgspec.structs.replace(record, state="running", began=began, ended=0, exit=0, signal=0)
    return msgspec.structs.replace(running, ended=end.time, **{end.event: end.number}) if end else running


def _after_its_end(record: Record) -> Record:
    """Return the record of a step that ended while no supervisor ran."""
    if record.ended:
        return msgspec.structs.replace(record, state="ended", ready=False)
    why = "its step ended while the supervisor of the job was killed"
    return msgspec.structs.replace(record, state="lost", ended=time.time(), why=why, ready=False)


def _trouble(lines: Iterable[str]) -> str:
    """Return Slurm's reason for the end of a step."""
    texts = [line.partition("error: ")[2] for line in lines if "error: " in line]
    return texts[0] if texts else "its step ended without an error message"


def _out_of_memory(lines: Iterable[str]) -> str:
    """Return Slurm's line that a step used too much memory; empty if Slurm printed none."""
    told = [line for line in lines if _MEMORY.search(line)]
    return f"out of memory: {told[0].rpartition('error: ')[2]}" if told else ""


def main() -> None:
    """Supervise the experiment until its job must end."""
    folder = Folder(sys.argv[1])
    # A supervisor that was killed before it had read the records took over nothing.
    is_again = sys.argv[2:] == ["again"] and not folder.starting.exists()
    experiment = folder.experiment()
    configuration = experiment.configuration if experiment else ""
    components = [commands.node_names(configuration, text) for text in _node_lists()]
    names = [name for component in components for name in component]
    job = int(os.environ["SLURM_JOB_ID"])
    is_requeued = "SLURM_RESTART_COUNT" in os.environ
    # With the SLURM_* variables of the batch step, srun would give each step that layout. Those of its node
    # and its GPUs would reach steps on other nodes.
    for name in [*os.environ]:
        is_layout = name.startswith("SLURM_") and name not in ("SLURM_CONF", "SLURM_JOB_ID")
        if is_layout or name in _BATCH_STEP_VARIABLES:
            del os.environ[name]
    records = folder.records()
    if not is_again:
        _forget_runs(folder, records, is_requeued=is_requeued)
        folder.forget_end()
        folder.starting.unlink(missing_ok=True)
    placed = {path: record.node for path, record in records.items() if is_again and record.node in names}
    supervisor = Slurm(folder, job, Nodes(components, commands.addresses(configuration, names), placed))
    if is_again:
        supervisor.take_over()
    supervisor.supervise()


def _node_lists() -> list[str]:
    """Return the nodes of each component of this job, in the notation of Slurm."""
    components = range(int(os.environ.get("SLURM_HET_SIZE", 0)))
    parts = [os.environ[f"SLURM_JOB_NODELIST_HET_GROUP_{number}"] for number in components]
    return parts or [os.environ["SLURM_JOB_NODELIST"]]


def _forget_runs(folder: Folder, records: Mapping[str, Record], *, is_requeued: bool) -> None:
    """Mark processes that ran before a requeue, or in another job, so that they start again."""
    for record in records.values():
        if record.state == "running" or (is_requeued and record.state == "lost"):
            folder.note(msgspec.structs.replace(record, state="starting", ready=False))


if __name__ == "__main__":
    main()
