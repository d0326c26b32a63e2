"""Starts and ends munged, slurmctld and six slurmd of this user, with every file in one folder.

Root can run jobs of every user there, another user only its own. The nodes have different
loopback addresses, so that a service on the wrong node is detected.
"""

import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from toolchain.kubernetes import packages
from toolchain.kubernetes.calls import ToolchainError, run
from toolchain.kubernetes.layout import cache_folder
from toolchain.kubernetes.packages import search_path

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged")
NODES = {f"n{number}": f"127.0.1.{number}" for number in range(1, 5)}
# Two more nodes in separate partitions, whose failures disturb no other test.
SPARE = {f"n{number}": f"127.0.1.{number}" for number in (5, 6)}
# The resources that the nodes advertise; nothing is reserved on this machine.
CPUS, MEMORY = 64, 64000
# The first port; the nodes use the next ones.
PORT = 17000
DAEMONS = ("munged", "slurmctld", "slurmd")
_CONFIGURATION = """
ClusterName=symphony
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=0
JobAcctGatherParams=OverMemoryKill
MpiDefault=none
DefMemPerNode=1000
ReturnToService=2
SlurmdParameters=config_overrides
MinJobAge=30
KillWait=5
SlurmctldTimeout=30
SlurmdTimeout=30
InactiveLimit=0
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=5
PriorityType=priority/basic
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/%n
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
GresTypes=gpu
{nodes}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=1-00:00:00 State=UP
PartitionName=spare Nodes=n[5-6] MaxTime=1-00:00:00 PriorityTier=1 State=UP
PartitionName=urgent Nodes=n[5-6] MaxTime=1-00:00:00 PriorityTier=9 State=UP
PartitionName=short Nodes=n1 MaxTime=00:10:00 State=UP
PartitionName=gpu Nodes=n1 MaxTime=1-00:00:00 State=UP
PartitionName=cpu Nodes=n[2-4] MaxTime=1-00:00:00 State=UP
"""
_NODE = "NodeName={name} NodeHostName={host} NodeAddr={address} Port={port} CPUs={cpus} RealMemory={memory}"


@dataclass(frozen=True)
class Slurm:
    """A Slurm cluster, whose files are in `folder`."""

    folder: Path

    @classmethod
    def default(cls) -> "Slurm":
        # Jobs of other users must read the files of root, whose home is closed to them.
        return cls(Path("/run/symphony/slurm") if os.geteuid() == 0 else cache_folder() / "slurm")

    @property
    def configuration(self) -> Path:
        """Return the file that SLURM_CONF names."""
        return self.folder / "slurm.conf"

    def up(self, say: Callable[[str], None]) -> None:
        """Wait until Slurm is ready; unless it is already, end it with all its jobs and start it anew."""
        if not _is_installed():
            packages.install(PACKAGES, say)
        if not self.is_ready():
            self.down()
            self._configure()
            self._start_munged()
            self._start("slurmctld")
            for name in (*NODES, *SPARE):
                self.start_node(name)
        deadline = time.monotonic() + 30
        while not self.is_ready():
            if time.monotonic() > deadline:
                raise ToolchainError(f"the nodes of Slurm do not come up; see {self.folder}/slurmctld.log")
            time.sleep(0.2)
        say(f"Slurm is up: export SLURM_CONF={self.configuration}")

    def start_node(self, name: str) -> None:
        """Start the daemon of a node."""
        self._start("slurmd", "-N", name)

    def start_missing_nodes(self) -> None:
        """Start the daemons that do not run: those that a test restarts end with its session."""
        for name in (*NODES, *SPARE):
            file = self.folder / f"{name}.pid"
            if not file.exists() or not psutil.pid_exists(int(file.read_text())):
                self.start_node(name)

    def end_node(self, name: str) -> None:
        """Kill the daemon of a node; the steps there run on."""
        daemon = psutil.Process(int((self.folder / f"{name}.pid").read_text()))
        daemon.kill()
        daemon.wait(10)

    def _start(self, program: str, *words: str) -> None:
        # Without variables of the test that starts it: the test ends all processes that have them.
        environment = ["env", "-i", f"SLURM_CONF={self.configuration}", f"PATH={search_path()}"]
        run([*environment, program, "-f", self.configuration, *words], timeout=20)

    def down(self) -> None:
        """End the daemons with all jobs, and remove the folder."""
        with suppress(ToolchainError):
            run([*self.client("scancel"), "--state=RUNNING,PENDING", f"--user={_user()}"], timeout=10)
            cancelled_by = time.monotonic() + 10
            while run([*self.client("squeue"), "-h"], timeout=10) and time.monotonic() < cancelled_by:
                time.sleep(0.2)
        deadline = time.monotonic() + 20
        while processes := list(self._processes()):
            late = time.monotonic() > deadline - 10
            for process in processes:
                with suppress(psutil.Error):
                    process.send_signal(signal.SIGKILL if late else signal.SIGTERM)
            if time.monotonic() > deadline:
                pids = ", ".join(str(process.pid) for process in processes)
                raise ToolchainError(f"these processes do not end: {pids}")
            time.sleep(0.2)
        shutil.rmtree(self.folder, ignore_errors=True)

    def is_ready(self) -> bool:
        """Return whether every node of the partition main takes jobs."""
        if not self.configuration.exists() or not shutil.which("sinfo"):
            return False
        try:
            states = run([*self.client("sinfo"), "-h", "-N", "-p", "main", "-o", "%t"], timeout=5).split()
        except ToolchainError:
            return False
        return len(states) == len(NODES) and all(
            state in ("idle", "mix", "alloc", "comp") for state in states
        )

    def client(self, program: str) -> list[str]:
        """Return the beginning of a command line for a client program of this Slurm."""
        return ["env", f"SLURM_CONF={self.configuration}", program]

    def _configure(self) -> None:
        self.folder.mkdir(parents=True, mode=0o755)
        (self.folder / "state").mkdir(mode=0o700)
        for name in (*NODES, *SPARE):
            (self.folder / name).mkdir()
        host, numbers = socket.gethostname(), dict(enumerate((NODES | SPARE).items(), 1))
        nodes = [
            _NODE.format(name=name, host=host, address=address, port=PORT + number, cpus=CPUS, memory=MEMORY)
            + (" Gres=gpu:v100:2 Feature=fast" if number == 1 else "")
            for number, (name, address) in numbers.items()
        ]
        text = _CONFIGURATION.format(
            host=host, user=_user(), port=PORT, folder=self.folder, nodes="\n".join(nodes)
        )
        self.configuration.write_text(text)
        gpus = [f"NodeName=n1 Name=gpu Type=v100 File={file}" for file in ("/dev/null", "/dev/zero")]
        (self.folder / "gres.conf").write_text("\n".join(gpus) + "\n")

    def _start_munged(self) -> None:
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        options = [f"--{name}-file={self.folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
        options.append(f"--socket={self.folder}/munge.sock")
        run(["env", f"PATH={search_path()}", "munged", "--force", *options], timeout=10)

    def _processes(self) -> Iterator[psutil.Process]:
        """Yield the daemons of this folder, and what they started."""
        for process in psutil.process_iter(["name", "cmdline"]):
            words = " ".join(process.info["cmdline"] or ())
            ours = process.info["name"] in DAEMONS and f"{self.folder}/" in words
            if process.info["name"] == "slurmstepd" and self._is_ours(process):
                # Processes that it runs would survive it.
                with suppress(psutil.Error):
                    yield from process.children(recursive=True)
                ours = True
            if ours:
                yield process

    def _is_ours(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            return process.environ().get("SLURM_CONF") == str(self.configuration)
        return False


def impossible() -> str:
    """Return why Slurm cannot run on this machine, or ''."""
    if _is_installed() or (os.geteuid() == 0 and shutil.which("apt-get")):
        return ""
    return f"Slurm is not installed; on Debian: apt-get install -y {' '.join(PACKAGES)}"


def _is_installed() -> bool:
    return all(shutil.which(program, path=search_path()) for program in PROGRAMS)


def _user() -> str:
    return psutil.Process().username()
