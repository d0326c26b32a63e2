"""Runs the processes of one experiment as steps of its job: `python -m symphony_slurm.supervisor FOLDER`.

It is the batch script of the job. It reads the declared processes from the folder on the shared disk, and
writes their states there: the command that asked for them has ended. The job ends with the supervisor, and
Slurm then ends every step.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from types import FrameType

import msgspec

from symphony import files
from symphony.errors import SymphonyError
from symphony_slurm import commands, free_ports
from symphony_slurm.folder import Address, Ended, Experiment, Folder, Member, Record, Wait, Wanted
from symphony_slurm.observe import how
from symphony_slurm.placement import Nodes
from symphony_tmux import variables
from symphony_tmux.processes import start as tmux_start

# Seconds between two looks at the folder, and that steps which end are heard.
PERIOD = 0.25
# An experiment whose processes have all ended keeps its nodes so long, for an edit; none where all completed.
LINGER = 600.0
# The range of the ports: below those that systems give to connections.
RANGE = (20000, 29999)
_DEADLINE = 60.0
_WHY = {
    signal.SIGTERM: "it was cancelled, preempted, or came to its time limit",
    signal.SIGUSR1: "its experiment was deleted, or needed another allocation",
}
_SUPERVISE = Path(tmux_start.__file__).with_name("supervise.pl")


@dataclass
class Running:
    """A step that runs: its srun, whose output tells of the process, and its record."""

    record: Record
    srun: subprocess.Popen[bytes]
    unread: bytes = b""
    asked_to_end: float = 0.0
    troubles: list[str] = field(default_factory=list[str])


class Supervisor:
    """The supervisor of one experiment."""

    def __init__(self, folder: Folder, job: int, nodes: Nodes) -> None:
        self._folder, self._job, self._nodes = folder, job, nodes
        self._running: dict[str, Running] = {}
        self._records: dict[str, Record] = {}
        self._addresses: dict[str, Address] = {}
        self._version, self._services = 0, Path()
        self._since: dict[str, float] = {}
        self._wanted: dict[str, int] = {}
        self._seen: object = None
        self._awaited = 0.0
        self._changed = True
        self._selector = selectors.DefaultSelector()
        self._why = ""
        self._idle = time.monotonic()

    def run(self) -> None:
        """Start what is wanted and end what is not, until all has completed or the job is to end."""
        for number in _WHY:
            signal.signal(number, self._stop)
        while not self._why:
            busy = True
            try:
                busy = self.step()
            except (OSError, ValueError, SymphonyError, subprocess.SubprocessError) as error:
                # A full disk, or a node that does not answer.
                sys.stderr.write(f"{error}; it tries again\n")
                self._changed = True
                time.sleep(1)
            if busy:
                self._idle = time.monotonic()
            elif self._has_completed() or time.monotonic() - self._idle > LINGER:
                self._why = (
                    "its processes have completed" if self._has_completed() else "nothing ran any more"
                )
                break
            self._hear(PERIOD)
        self._end_all()
        self._folder.note_end(Ended(job=self._job, why=self._why, at=time.time()))

    def step(self) -> bool:
        """Look once at what is wanted; return whether something runs or is to run."""
        names = self._folder.names()
        if names == self._seen and not self._changed:
            return bool(self._running)
        self._changed = False
        experiment = self._folder.experiment()
        if experiment is None:
            return True
        # No program declares what a killed run left.
        wanted = {path: n for path, n in self._folder.wanted().items() if path in experiment.members}
        self._wanted = wanted
        self._seen = names
        for path, running in self._running.items():
            if wanted.get(path) != running.record.attempt:
                self._end(running, experiment.grace)
        self._nodes.place(experiment.members)
        starts = [self._to_start(path, attempt) for path, attempt in sorted(wanted.items())]
        ready = [wish for wish in starts if wish is not None and path_is_free(wish, self._running)]
        now = [wish for wish in ready if self._may_start(wish)]
        if now:
            self._find_ports(experiment, {wish.path for wish in now})
        for wish in now:
            self._start(wish, experiment)
        # Members that wait or are to end are checked again.
        ending = any(running.asked_to_end for running in self._running.values())
        self._changed = self._changed or ending or len(starts) > starts.count(None)
        complete = {*experiment.members} <= {*wanted}
        return bool(self._running or ready or not complete)

    # starts

    def _to_start(self, path: str, attempt: int) -> Wanted | None:
        """Return the start that is wanted, unless it was made already in this job, or has ended in any."""
        record = self._records.get(path) or self._folder.record(path)
        if record is not None and record.attempt == attempt:
            if record.state in ("ended", "lost"):
                self._records[path] = record
            # This supervisor started all that runs: a job that is requeued begins again.
            if path in self._records and _is_started(record):
                return None
        return self._folder.wish(path, attempt)

    def _may_start(self, wish: Wanted) -> bool:
        """Return whether nothing holds the process back; else note what does."""
        began = self._since.setdefault(f"{wish.path}@{wish.attempt}", time.monotonic())
        whys: list[str] = []
        blocked = False
        for wait in wish.waits_for:
            met, failed, why = self._answer(wait)
            if not met and not failed and wait.timeout and time.monotonic() - began > wait.timeout:
                failed, why = True, f"{wait.path} is not {wait.condition} after {wait.timeout:.0f} s"
            if not met:
                whys.append(why if failed else f"{wait}{f': {why}' if why else ''}")
                blocked = blocked or failed
        if not whys:
            return True
        text = "; ".join(whys) if blocked else f"for {', '.join(whys)}"
        self._note(
            Record(
                path=wish.path,
                attempt=wish.attempt,
                job=self._job,
                state="blocked" if blocked else "waiting",
                why=text,
                node=self._nodes.of(wish.path),
                waits_for=tuple(map(str, wish.waits_for)),
            )
        )
        return False

    def _answer(self, wait: Wait) -> tuple[bool, bool, str]:
        """Return whether a wait is met, has failed, and why it is open."""
        record = self._records.get(wait.path)
        if record is None or record.state == "starting" or record.attempt != self._wanted.get(wait.path):
            return False, False, "not started yet"
        if record.state in ("waiting", "blocked"):
            blocked = record.state == "blocked"
            return False, blocked, f"{wait.path} is blocked" if blocked else ""
        if record.state == "running":
            missing = [
                name for name in wait.services if wait.condition == "ready" and not self._listens(name)
            ]
            met = wait.condition in ("started", "ready") and not missing
            return met, False, ", ".join(f"{name}: not listening yet" for name in missing)
        is_good = (
            record.state == "ended"
            and not (record.exit or record.signal)
            and not (wait.condition == "ready" and wait.services)
        )
        met = is_good or wait.condition == "ended"
        return met, not met, f"{wait.path} has ended: {record.why or how(record)}"

    def _listens(self, service: str) -> bool:
        address = self._addresses.get(service)
        if address is None:
            return False
        try:
            socket.create_connection((address.host, address.port), timeout=0.5).close()
        except OSError:
            return False
        return True

    def _start(self, wish: Wanted, experiment: Experiment) -> None:
        member = experiment.members[wish.path]
        place = self._folder.process(wish.path)
        link = place / f"services@{wish.attempt}.sh"
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(self._services, place))
        node = self._nodes.of(wish.path)
        record = Record(path=wish.path, attempt=wish.attempt, job=self._job, state="starting", node=node)
        if wish.cwd and not Path(wish.cwd).is_dir():
            why = f"the start folder {wish.cwd} does not exist on {os.uname().nodename}"
            self._note(msgspec.structs.replace(record, state="ended", exit=125, why=why, ended=time.time()))
            return
        ports = [
            each.port for name, each in self._addresses.items() if experiment.services[name].path == wish.path
        ]
        words = [
            *self._srun(node, member),
            f"--job-name={wish.path.replace('/', '.')}",
            *_program(self._folder, wish),
        ]
        srun = subprocess.Popen(
            [*words, str(experiment.grace), os.uname().machine, *map(str, sorted(ports))],
            env={**os.environ, "SYMPHONY_STEP": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert srun.stdout is not None
        os.set_blocking(srun.stdout.fileno(), False)
        self._note(record)
        running = self._running[wish.path] = Running(record, srun)
        self._selector.register(srun.stdout, selectors.EVENT_READ, running)

    def _srun(self, node: str, member: Member = Member()) -> list[str]:  # noqa: B008 : it is frozen
        # Steps share the nodes: what a process claims counts in the allocation.
        words = ["srun", "--overlap", "--exact", "-N1", "-n1", f"-c{max(1, ceil(member.cpus))}", "--mem=0"]
        gpus = f"gpu:{member.gpus}" if member.gpus else "none"
        return [
            *words,
            f"--nodelist={node}",
            f"--gres={gpus}",
            "--export=ALL",
            "--kill-on-bad-exit=0",
        ]

    # services

    def _find_ports(self, experiment: Experiment, starting: set[str]) -> None:
        """Find a port for each service without one, and look again at those of processes that start."""
        wanted: dict[str, list[str]] = {}
        for name, service in experiment.services.items():
            known, node = self._addresses.get(name), self._nodes.of(service.path)
            if node and (known is None or known.node != node or service.path in starting):
                wanted.setdefault(node, []).append(name)
        gone = {*self._addresses} - {*experiment.services}
        hosts = self._nodes.hosts
        found = {name: each for name, each in self._addresses.items() if name not in gone}
        for node, ports in self._ports(experiment, wanted).items():
            for name, port in zip(wanted[node], ports, strict=True):
                found[name] = Address(
                    host=hosts[node], port=experiment.services[name].port or port, node=node
                )
        if found != self._addresses or not self._version:
            self._version += 1
            self._addresses = found
            text = variables.content(service_variables(found))
            self._services = self._folder.publish(found, text, self._version)

    def _ports(self, experiment: Experiment, wanted: Mapping[str, list[str]]) -> dict[str, list[int]]:
        """Return a free port on its node for each service of a node; all nodes are asked at once."""
        first, last = experiment.port_range or RANGE
        asked: dict[str, subprocess.Popen[str]] = {}
        for node, names in wanted.items():
            # Nodes choose among different ports, jobs begin at different ones.
            start = self._nodes.names.index(node) + self._job * 97 * len(self._nodes.names)
            kept = [self._addresses[name].port if name in self._addresses else 0 for name in names]
            numbers = [first, last, start % (last - first + 1), len(self._nodes.names), *kept]
            words = [*self._srun(node), sys.executable, "-I", "-S", free_ports.__file__, *map(str, numbers)]
            asked[node] = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=os.environ
            )
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

    def _end(self, running: Running, grace: float) -> None:
        """Have the process end: the end of its input tells its own supervisor, which knows the grace."""
        now = time.monotonic()
        if not running.asked_to_end:
            running.asked_to_end = now
            assert running.srun.stdin is not None
            running.srun.stdin.close()
        elif now - running.asked_to_end > grace + 10:
            # It makes Slurm kill the step.
            running.srun.terminate()

    def _end_all(self) -> None:
        experiment = self._folder.experiment()
        grace = experiment.grace if experiment else 0.0
        deadline = time.monotonic() + grace + 20
        while self._running and time.monotonic() < deadline:
            for running in self._running.values():
                self._end(running, grace)
            self._hear(PERIOD)

    def _stop(self, number: int, _: FrameType | None) -> None:
        self._why = self._why or _WHY[signal.Signals(number)]

    def _has_completed(self) -> bool:
        """Return whether every declared process has completed; one that failed may be started again."""
        experiment = self._folder.experiment()
        if experiment is None:
            return False
        records = [self._records.get(path) for path in experiment.members]
        return all(r is not None and r.state == "ended" and not (r.exit or r.signal) for r in records)

    # what the steps tell

    def _hear(self, seconds: float) -> None:
        """Read what steps tell, for at most so long after the first of it."""
        for key, _ in self._selector.select(seconds):
            running: Running = key.data
            data = b""
            with suppress(BlockingIOError):
                data = os.read(key.fd, 1 << 16)
            *lines, running.unread = (running.unread + data).split(b"\n")
            for line in lines:
                self._told(running, line.decode(errors="replace"))
            if not data:
                self._selector.unregister(key.fileobj)
                self._ended(running)

    def _told(self, running: Running, line: str) -> None:
        moment, _, event = line.partition(" ")
        kind, *numbers = event.split()[:3] or [""]
        if not moment.replace(".", "", 1).isdecimal() or not all(map(str.isdecimal, numbers)):
            running.troubles.append(line)
            return
        at, number = float(moment), int(numbers[0]) if numbers else 0
        if kind in ("start", "again", "more"):
            self._change(running, state="running", began=at, exit=0, signal=0)
        elif kind in ("exit", "signal"):
            self._change(running, **{kind: number}, ended=at)

    def _change(self, running: Running, **changes: object) -> None:
        running.record = msgspec.structs.replace(running.record, **changes)
        self._note(running.record)

    def _ended(self, running: Running) -> None:
        running.srun.wait()
        record = running.record
        del self._running[record.path]
        self._changed = True
        if (record.signal or record.exit > 128) and not running.asked_to_end:
            self._await_signal()
        if self._why:
            # The end of the job ended it: in the next job it starts again.
            return
        changes: dict[str, object] = {"state": "ended"}
        if not record.ended:
            # The step never began, or ended without a word: its node failed, or was killed.
            changes = {"state": "lost", "ended": time.time(), "why": _trouble(running.troubles)}
        self._change(running, **changes)

    def _await_signal(self) -> None:
        """Wait a moment: where Slurm ends the job, processes may end before this supervisor is told."""
        if time.monotonic() - self._awaited > 1:
            time.sleep(0.3)
            self._awaited = time.monotonic()

    def _note(self, record: Record) -> None:
        if self._records.get(record.path) != record:
            self._records[record.path] = record
            files.own_folder(self._folder.process(record.path))
            self._folder.note(record)


def path_is_free(wish: Wanted, running: Iterable[str]) -> bool:
    """Return whether no earlier start of the process runs."""
    return wish.path not in running


def service_variables(addresses: Mapping[str, Address]) -> dict[str, str]:
    """Return the SYMPH_* variables of all services."""
    result: dict[str, str] = {}
    for name, each in addresses.items():
        stem = "SYMPH_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in name.upper())
        host = f"[{each.host}]" if ":" in each.host else each.host
        result |= {
            f"{stem}_HOST": each.host,
            f"{stem}_PORT": str(each.port),
            f"{stem}_ADDR": f"{host}:{each.port}",
        }
    return result


def _program(folder: Folder, wish: Wanted) -> list[str]:
    place = folder.process(wish.path)
    cap = str(tmux_start.LOG_CAP)
    return [tmux_start.perl(), str(_SUPERVISE), str(place), str(wish.attempt), wish.shell, cap, wish.policy]


def _is_started(record: Record) -> bool:
    return record.state not in ("waiting", "blocked")


def _trouble(lines: Iterable[str]) -> str:
    """Return why a step ended, in the words of Slurm."""
    texts = [line.partition("error: ")[2] for line in lines if "error: " in line]
    return texts[0] if texts else "its step ended without a word"


def main() -> None:
    """Supervise the experiment until its job is to end."""
    folder = Folder(sys.argv[1])
    experiment = folder.experiment()
    configuration = experiment.configuration if experiment else ""
    names = commands.node_names(configuration, os.environ["SLURM_JOB_NODELIST"])
    job = int(os.environ["SLURM_JOB_ID"])
    # A step that inherits the layout of the batch step would be laid out like it.
    for name in [*os.environ]:
        if name.startswith("SLURM_") and name not in ("SLURM_CONF", "SLURM_JOB_ID"):
            del os.environ[name]
    Supervisor(folder, job, Nodes(names, commands.addresses(configuration, names))).run()


if __name__ == "__main__":
    main()
