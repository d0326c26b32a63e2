"""A process gets limits, niceness and CPU affinity of the caller of `up`, not of the tmux server."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from symphony_tmux.processes import process_table
from symphony_tmux.tmux import server_limits
from symphony_tmux.tmux.client import Listing
from tests.sandbox import wait_for

CREATE = """
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import {0}
{0}.create({1}, Snapshot())
"""
LARGE = 1 << 33
KINDS = (resource.RLIMIT_FSIZE, resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE)


def _lower_own_limits() -> None:
    """Lower soft limits, take one processor, and ignore and block signals: every user may undo these."""
    for number, value in zip(KINDS, (LARGE, 2 * LARGE, 5000, 200), strict=True):
        resource.setrlimit(number, (value, resource.getrlimit(number)[1]))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGXFSZ, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])


def _create_with_lower_limits(what: str, inputs: dict[str, Any], *, nicer: int = 0) -> None:
    def prepare() -> None:
        _lower_own_limits()
        os.nice(nicer)

    command = [sys.executable, "-c", CREATE.format(what, inputs)]
    subprocess.run(command, check=True, preexec_fn=prepare, timeout=60)


def _limits_of(pid: int) -> tuple[Any, ...]:
    result = [resource.prlimit(pid, number)[0] for number in KINDS]
    return (*result, os.sched_getaffinity(pid), os.getpriority(os.PRIO_PROCESS, pid))


def _process(rig: Any, path: str) -> int:
    """Return the pid of the process itself: the last one that its launch file became."""

    def pids() -> list[int]:
        own = [process.pid for process in rig.living() if f"/{path}/" in process.marker]
        return [pid for pid in own if process_table.command_name(pid) == "sleep"]

    return wait_for(pids, 10, f"{path} runs")[0]


def test_limits_come_from_the_caller_and_not_from_the_tmux_server(rig: Any) -> None:
    _create_with_lower_limits("sessions", rig.session_inputs("a", "b"))
    _create_with_lower_limits("windows", rig.inputs("a", "sleep", "100"), nicer=3)
    pid = rig.session("a", "b")["server_pid"]
    rig.start("b", "sleep", "100")
    assert _limits_of(_process(rig, "b")) == _limits_of(os.getpid())
    only = {min(os.sched_getaffinity(0))}
    niceness = os.getpriority(os.PRIO_PROCESS, 0) + 3
    assert _limits_of(_process(rig, "a")) == (LARGE, 2 * LARGE, 5000, 200, only, niceness)
    assert os.sched_getaffinity(pid) == os.sched_getaffinity(os.getpid())
    for number in KINDS:
        assert resource.prlimit(pid, number)[0] == resource.getrlimit(number)[1]
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    taken_back = sum(1 << number - 1 for number in (signal.SIGINT, signal.SIGXFSZ, signal.SIGALRM))
    assert int(status["SigIgn"], 16) & taken_back == 0
    assert int(status["SigBlk"], 16) == 0


def test_a_process_survives_a_file_size_limit_reached_by_its_log(rig: Any) -> None:
    pid = rig.session("a")["server_pid"]
    hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, hard))
    outputs = rig.start("a", "sh", "-c", "yes | head -c 100000; sleep 0.5; echo >more; exit 3")
    assert rig.ended(outputs).pane.exit_code == 3
    assert Path(outputs["log"]).stat().st_size == 4096
    assert (rig.home / "more").exists()


def test_limits_that_cannot_be_raised_are_refused_before_anything_starts(
    rig: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (102400, 102400))
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 20))
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
        os.nice(4)

    other = subprocess.Popen(["sleep", "100"], preexec_fn=lower)
    try:
        listing = Listing(other.pid)
        (tmp_path / "self").mkdir()
        (tmp_path / "self/status").write_text("CapEff:\t0000000000000000\n")
        monkeypatch.setattr(process_table, "PROC", tmp_path)
        niceness = os.getpriority(os.PRIO_PROCESS, 0) + 4
        told = " ".join(what for what, _ in server_limits.lowered_limits(listing))
        letters = [letter for letter in "cdflmnstuv" if f"ulimit -{letter}" in told]
        assert letters == ["f", *(["l"] if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] else []), "n", "s"]
        assert f"niceness of {niceness}" in told
        (tmp_path / "self/status").write_text("CapEff:\t000001ffffffffff\n")
        assert list(server_limits.lowered_limits(listing)) == []
        assert list(server_limits.lowered_limits(Listing())) == []
    finally:
        other.kill()
        other.wait()
