"""The supervisor of one process (supervise.pl): restarts, exits, logs, ports, and its own end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from symphony import files
from symphony.backends import process_logs
from symphony.backends.observe import Recorded
from symphony.backends.tmux import observe as tmux_observe
from symphony_tmux import logs as reader
from symphony_tmux import names
from symphony_tmux.processes import process_table, start
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import sessions, windows
from tests.sandbox import wait_for


def _short_pauses(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide the pauses of the supervisor before restarts by a hundred; write them into its folder."""
    hurried = rig.home / "supervise.pl"
    text = start.SUPERVISE_SCRIPT.read_text()
    assert text.count("keep_reading($pause)") == 1
    note = 'open(my $note, ">>", "$folder/pauses"); print $note "$pause "; close $note;'
    hurried.write_text(text.replace("keep_reading($pause)", f"{note} keep_reading($pause / 100)"))
    monkeypatch.setattr(start, "SUPERVISE_SCRIPT", hurried)


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Return a function that starts the supervisor of a launch file without tmux."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(lines: str, *options: str, policy: str = "Never", grace: str = "1") -> subprocess.Popen[bytes]:
        (tmp_path / "launch.sh").write_text(lines)
        os.mkfifo(tmp_path / "pipe")
        attempt, log_cap = "1", "4096"
        words = [str(tmp_path), attempt, "/bin/sh", log_cap, policy, grace, os.uname().machine]
        command = [start.perl(), *options, str(start.SUPERVISE_SCRIPT), *words]
        started.append(subprocess.Popen(command, start_new_session=True))
        return started[-1]

    yield begin
    for supervisor in started:
        with suppress(ProcessLookupError):
            os.killpg(supervisor.pid, signal.SIGKILL)
        supervisor.wait(10)


def test_a_process_has_failed_after_five_restarts(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _short_pauses(rig, monkeypatch)
    rig.session("a", "b")
    command = ("sh", "-c", "echo no such module; exit 7")
    started = {
        path: rig.start(path, *command, restart_policy=policy)
        for path, policy in (("a", "OnFailure"), ("b", "Always"))
    }
    recorded = Recorded(rig.owner, "rl", started)
    for path, outputs in started.items():
        result = rig.ended(outputs)
        assert (result.state, result.pane.exit_code) == ("failed", 7)
        assert len(reader.attempts(outputs["log"])) == 6
        assert reader.restarts(outputs["log"]) == 5
        assert "exit 7 after 5 restarts" in [link.what for link in tmux_observe.why(recorded, path, "rl")]
    for status in tmux_observe.statuses([recorded])[0]:
        assert (status.state, status.restarts) == ("failed", 5)
        assert status.why == "exit 7 after 5 restarts: no such module"


def test_the_supervisor_of_an_experiment_is_started_again_however_often_it_was_killed(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it does not run, processes that wait for others do not start, and an `up` waits for them.

    So its pauses are at most 4 s; those of a process double up to 60 s.
    """
    _short_pauses(rig, monkeypatch)
    rig.session("a")
    outputs = rig.start(names.SUPERVISOR, "sh", "-c", "kill -9 $$", restart_policy="Always")
    rig.until(lambda: reader.restarts(outputs["log"]) > 7)
    assert rig.condition(outputs).state == "running"
    assert Path(outputs["log"]).with_name("pauses").read_text().split()[:7] == ["1", "2", *["4"] * 5]


def test_only_consecutive_failures_count_toward_the_restart_limit(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _short_pauses(rig, monkeypatch)
    rig.session("a")
    file = rig.home / "count"
    body = 'echo x >>"$0"; [ $(($(wc -l <"$0") % 5)) = 0 ] && exit 0; exit 1'
    outputs = rig.start("a", "sh", "-c", body, str(file), restart_policy="Always")
    rig.until(lambda: reader.restarts(outputs["log"]) > 12)
    assert rig.condition(outputs).state == "running"


def test_the_exit_is_noticed_without_sigchld(supervise: Callable[..., subprocess.Popen[bytes]]) -> None:
    """A SIGCHLD just before the supervisor waits does not wake it; here it is blocked."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    try:
        supervisor = supervise("exit 7\n")
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    assert supervisor.wait(10) == 7


@pytest.mark.parametrize("has_run", [True, False])
def test_a_process_that_is_ended_while_it_waits_is_not_started_once_more(
    tmp_path: Path, supervise: Callable[..., subprocess.Popen[bytes]], *, has_run: bool
) -> None:
    """Its log has its end by SIGTERM only once, and no end if it has never run."""
    hold, log = tmp_path / "hold", tmp_path / "log"
    if not has_run:
        hold.touch()
    supervisor = supervise("sleep 100\n")
    if has_run:
        wait_for(lambda: process_table.children(supervisor.pid), 20, "it has begun")
        hold.touch()
        wait_for(lambda: [mark.event for mark in reader.events(log)] == ["start", "signal"], 20, "it ended")
        wait_for(lambda: not process_table.children(supervisor.pid), 20, "it waits")
    time.sleep(1)
    before = reader.events(log)
    supervisor.terminate()
    assert supervisor.wait(10) == -signal.SIGTERM
    assert reader.events(log) == before
    assert [mark.event for mark in before] == ["start", "signal"] * has_run


def test_the_recorder_ends_if_the_server_is_killed_before_the_supervisor_reads(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorder (the command behind tmux's pipe-pane) once waited forever for a reader of its pipe."""
    slow = rig.home / "supervise.pl"
    slow.write_text("sleep 100;")
    monkeypatch.setattr(start, "SUPERVISE_SCRIPT", slow)
    server = rig.session("a")["server_pid"]
    rig.start("a", "true")
    rig.until(lambda: _recorders(rig.home))
    os.kill(server, signal.SIGKILL)
    rig.until(lambda: not _recorders(rig.home))


def _recorders(home: Path) -> list[int]:
    """Return the processes behind tmux's pipe-pane in this home."""
    result = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_ours = (process / "cwd").readlink() == home
            if is_ours and (process / "comm").read_text() in ("sh\n", "cat\n"):
                result.append(int(process.name))
    return result


# A Perl module loaded into the supervisor: each byte of a file sets its wall clock back by an hour; the
# monotonic clock is unchanged.
STEP = """
package Step;
use Time::HiRes;
my $clock = \\&Time::HiRes::time;
my $steps = sub { 3600 * (-s "$ARGV[0]/steps" || 0) };
no warnings qw(redefine prototype);
*Time::HiRes::time = sub { $clock->() - $steps->() };
*CORE::GLOBAL::time = sub { CORE::time() - $steps->() };
1;
"""


def test_a_clock_set_back_delays_neither_restarts_nor_exits(
    tmp_path: Path, supervise: Callable[..., subprocess.Popen[bytes]]
) -> None:
    (tmp_path / "Step.pm").write_text(STEP)
    # A child left behind ignores SIGTERM, and sets the clock back during the grace period.
    left = """trap '' TERM; sleep 0.1; printf x >>"${0%/*}/steps"; while :; do sleep 0.1; done"""
    supervise(f"({left}) & exit 1\n", f"-I{tmp_path}", "-MStep", policy="OnFailure", grace="0.5")
    index, steps = tmp_path / "index", tmp_path / "steps"
    for ends in (1, 2, 3):
        wait_for(lambda ends=ends: index.exists() and index.read_text().count("exit") >= ends, 20, "an end")
        with steps.open("a") as file:
            file.write("x")
    times = [float(line.split()[0]) for line in index.read_text().splitlines()]
    assert times[-1] < times[0] - 1800, "its clock was not put back"


def test_a_process_keeps_running_after_its_log_was_removed(rig: Any) -> None:
    rig.session("a")
    outputs = rig.start("a", "sh", "-c", "while :; do echo one; sleep 0.2; done")
    log = Path(outputs["log"])
    rig.until(lambda: b"one" in rig.printed(outputs))
    recorded = _recorded_experiment(rig, outputs)
    for removed in (log, log.parent):
        files.remove(removed)
        [[status]] = tmux_observe.statuses([recorded])
        assert status.state == "running"
        assert "was removed" in status.why
        assert [line.text for line in tmux_observe.logs(recorded, ["a"])] == [f"[symphony: {status.why}]"]


def _recorded_experiment(rig: Any, outputs: dict[str, Any]) -> Recorded:
    return Recorded(rig.owner, "rl", {"a": {**rig.inputs("a"), **outputs}})


def test_the_shown_pid_is_that_of_the_program(rig: Any) -> None:
    paths = ("a", "b", "c", "d")
    rig.session(*paths)
    facts: dict[str, Any] = {}
    for path, policy in zip(paths, (None, "Always"), strict=False):
        facts[path] = {**rig.inputs(path), **rig.start(path, "sleep", "100", restart_policy=policy)}
    for path, policy in zip(paths[2:], (None, "Always"), strict=True):
        script = rig.script(path, "true", "sleep 100", restart_policy=policy)
        facts[path] = {**rig.inputs(path), "script": ["x"], **script}
    recorded = Recorded(rig.owner, "rl", facts)

    def names() -> list[str]:
        [statuses] = tmux_observe.statuses([recorded])
        return [process_table.command_name(status.pid or 0) for status in statuses]

    rig.until(lambda: names() == ["sleep"] * 4)
    for status in tmux_observe.statuses([recorded])[0][:2]:
        why = tmux_observe.why(recorded, status.path, "rl")
        assert f"running, process {status.pid}" in [link.what for link in why]


# Listens without SO_REUSEADDR, accepts one connection, and closes it first.
SERVER = """
import socket, sys
with socket.socket() as server:
    server.bind(("127.0.0.1", int(sys.argv[1])))
    server.listen()
    print("listens", flush=True)
    server.accept()[0].close()
"""


@pytest.fixture
def port() -> int:
    """Return a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.mark.slow
def test_a_restart_waits_for_its_port_in_time_wait(rig: Any, port: int) -> None:
    """The kernel holds the port for a minute; a server without SO_REUSEADDR cannot bind it earlier."""
    services = {"SYMPH_S_BIND": f"127.0.0.1:{port}", "SYMPH_S_PORT": str(port)}
    rig.session("a")
    command = [sys.executable, "-c", SERVER, str(port)]

    def has_listened(outputs: dict[str, Any], times: int) -> bool:
        return rig.printed(outputs).count(b"listens") == times

    for turn in (1, 2):
        outputs = rig.start("a", *command, services=services)
        # Longer than the minute for which the kernel holds the port.
        rig.until(partial(has_listened, outputs, turn), 90)
        with socket.create_connection(("127.0.0.1", port)) as connection:
            assert connection.recv(1) == b""
        assert rig.ended(outputs).state == "completed"
        windows.delete(outputs, Snapshot())
    printed = rig.printed(outputs)
    assert printed.count(f"[symphony: waiting for port {port} (earlier connections)".encode()) == 1


def _status(rig: Any, outputs: dict[str, Any]) -> Any:
    [[status]] = tmux_observe.statuses([_recorded_experiment(rig, outputs)])
    return status


@pytest.mark.parametrize("restart_policy", [None, "OnFailure"])
def test_a_process_waits_for_a_port_in_use_and_says_so(
    rig: Any, port: int, restart_policy: str | None
) -> None:
    """The wait uses up no attempt; the process starts when the port is free."""
    services = {"SYMPH_S_BIND": f"127.0.0.1:{port}", "SYMPH_S_PORT": str(port)}
    rig.session("a")
    with socket.create_server(("127.0.0.1", port)):
        outputs = rig.start(
            "a",
            "sh",
            "-c",
            'printf begun; exec "$0" "$@"',
            sys.executable,
            "-c",
            SERVER,
            str(port),
            services=services,
            restart_policy=restart_policy,
        )
        outputs["services"] = services
        rig.until(lambda: f"port {port} " in _status(rig, outputs).why)
        status = _status(rig, outputs)
        assert (status.state, status.ready, status.pid) == ("waiting", False, None)
        assert f"pid {os.getpid()}" in status.why
        freed = time.time()
        assert (
            f"pid {os.getpid()}" in tmux_observe.why(_recorded_experiment(rig, outputs), "a", "rl")[-1].what
        )
    rig.until(lambda: b"listens" in rig.printed(outputs))
    assert (status := _status(rig, outputs)).state == "running"
    assert status.since >= freed - 0.1, "the start of the process that runs"
    if restart_policy is None:
        windows.delete(outputs, Snapshot())
        return
    with socket.create_connection(("127.0.0.1", port)) as peer:
        assert peer.recv(1) == b""
        rig.until(lambda: rig.ended(outputs).state == "completed")
        again = windows.update(outputs, rig.inputs("a", "sleep", "1", services=services), Snapshot())
        windows.delete(again, Snapshot())
        outputs = rig.start("a", sys.executable, "-c", SERVER, str(port), services=services)
        outputs["services"] = services
        rig.until(lambda: "earlier connections" in _status(rig, outputs).why)
        assert not _status(rig, outputs).ready
    windows.delete(outputs, Snapshot())
    assert rig.printed(outputs).count(b"[symphony: waiting for") == 2


def test_output_of_a_new_start_begins_on_a_new_log_line(rig: Any) -> None:
    rig.session("a")
    outputs = rig.start("a", "printf", "one")
    rig.ended(outputs)
    outputs = windows.update(outputs, rig.inputs("a", "printf", "two"), Snapshot())
    rig.ended(outputs)
    assert rig.printed(outputs) == b"one\ntwo\n"
    lines = process_logs.merge_lines({"a": outputs}, ["a"], since=None, tail=None)
    assert [line.text for line in lines] == ["one", "ended: exit 0", "two", "ended: exit 0"]
    again = windows.update(outputs, rig.inputs("a", "printf", "three", restart_policy="Always"), Snapshot())
    rig.until(lambda: rig.printed(again).count(b"three") > 1)
    windows.delete(again, Snapshot())
    assert b"two\nthree\nthree" in rig.printed(again)


def test_a_process_that_kills_its_process_group_does_not_kill_its_supervisor(rig: Any) -> None:
    rig.session("a")
    outputs = rig.start("a", "sh", "-c", "echo on; kill -9 0", restart_policy="OnFailure")
    rig.until(lambda: rig.printed(outputs).count(b"on") > 1)
    windows.delete(outputs, Snapshot())


def test_ctrl_c_in_the_window_reaches_the_process(rig: Any) -> None:
    rig.session("a")
    outputs = rig.start(
        "a",
        "sh",
        "-c",
        "trap 'echo interrupted; exit 3' INT; echo up; while :; do read x && echo got $x; done",
    )
    rig.until(lambda: b"up" in rig.printed(outputs))
    rig.pane(outputs).send_keys("C-z", enter=False)
    rig.pane(outputs).send_keys("word", enter=True)
    rig.until(lambda: b"got word" in rig.printed(outputs))
    rig.pane(outputs).send_keys("C-c", enter=False)
    assert rig.ended(outputs).pane.exit_code == 3
    assert b"interrupted" in rig.printed(outputs)


@pytest.mark.parametrize("command", ["sleep 100", "exit 3"])
def test_status_says_that_the_supervisor_was_killed(rig: Any, command: str) -> None:
    """The supervisor is killed while its process runs, or while it waits before a restart."""
    rig.session("a", "b")
    own = rig.start("b", "sh", "-c", "kill -9 $$")
    supervised = rig.start("a", "sh", "-c", command, restart_policy="OnFailure")
    state = "running" if command == "sleep 100" else "waiting"
    rig.until(lambda: _status(rig, supervised).restarts == (state == "waiting"))
    rig.until(lambda: _status(rig, supervised).state == state)
    # A supervisor that is killed before it has started the process leaves no start in the log.
    rig.until(lambda: state == "waiting" or _status(rig, supervised).pid)
    os.kill(supervised["pid"], signal.SIGKILL)
    rig.ended(supervised)
    rig.ended(own)
    assert _status(rig, supervised).state == "failed"
    assert "supervisor was killed" in _status(rig, supervised).why
    link = tmux_observe.why(_recorded_experiment(rig, supervised), "a", "rl")[-1]
    assert all(word in link.what for word in ("supervisor", "OnFailure"))
    assert "`symphony up rl`" in link.remedy
    assert "supervisor" not in _status(rig, own).why
    again = windows.update(supervised, rig.inputs("a", "sleep", "100"), Snapshot())
    assert rig.condition(again).state == "running"


def test_a_completed_process_stays_completed_after_a_reboot(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.session("done", "failed", "always")
    done, failed = rig.start("done", "true"), rig.start("failed", "false")
    always = rig.start("always", "true", restart_policy="Always")
    rig.until(lambda: reader.attempts(always["log"]) and reader.attempts(always["log"])[-1][2])
    for outputs in (done, failed):
        rig.ended(outputs)
    rig.tmux.kill()
    for rebooted in (False, True):
        if rebooted:
            monkeypatch.setattr(process_table, "boot_id", lambda: "another")
        states = [rig.condition(outputs).state for outputs in (done, failed, always)]
        assert states == ["completed", "lost", "lost"]
        inputs = rig.inputs("done", "true")
        assert windows.repairs(inputs, inputs, Snapshot()) == {"repair": ""}
        assert not windows.diff({**inputs, **done}, inputs, Snapshot()).changed
        assert windows.read({**inputs, **done}, Snapshot()) is not None
    session = {**rig.session_outputs, "boot_id": "one"}
    sessions.update(session, rig.session_inputs("done", "failed", "always"), Snapshot())
    again = windows.update({**inputs, **done}, {**inputs, "grace": 2.0}, Snapshot())
    assert again["attempt"] == done["attempt"]
    restarted = windows.update({**inputs, **done}, rig.inputs("done", "echo", "again"), Snapshot())
    assert restarted["attempt"] == done["attempt"] + 1


# Pid 1 of a pid namespace, which can choose the next pid: it starts a process in place of the cat that feeds
# the supervisor, ends it, starts another with the same pid, and prints whether that one survives the
# supervisor.
REUSE = """
import os, subprocess, sys, time
folder, *supervisor = sys.argv[1:]
fed = subprocess.Popen(["sleep", "1000"])
running = subprocess.Popen(supervisor, cwd=folder)
while not os.path.exists(folder + "/started"):
    time.sleep(0.01)
with open(folder + "/pipe", "w") as pipe:
    pipe.write(f"{fed.pid}\\n")
    pipe.flush()
    time.sleep(0.5)
    fed.kill()
    fed.wait()
    while True:
        open("/proc/sys/kernel/ns_last_pid", "w").write(str(fed.pid - 1))
        other = subprocess.Popen(["sleep", "1000"])
        if other.pid == fed.pid:
            break
        other.kill()
        other.wait()
    open(folder + "/go", "w").close()
    running.wait(20)
time.sleep(0.2)
print(other.poll())
other.kill()
"""


def test_a_supervisor_does_not_signal_a_reused_pid_of_its_recorder(tmp_path: Path) -> None:
    if os.getuid():
        pytest.skip("only root makes a pid namespace and says which pid comes next")
    (tmp_path / "launch.sh").write_text(
        f"touch {tmp_path}/started; until [ -e {tmp_path}/go ]; do sleep 0.05; done\n"
    )
    os.mkfifo(tmp_path / "pipe")
    attempt, log_cap, grace = "1", "4096", "1"
    words = [str(tmp_path), attempt, "/bin/sh", log_cap, "Never", grace, os.uname().machine]
    supervisor = [start.perl(), str(start.SUPERVISE_SCRIPT), *words]
    command = [
        "unshare",
        "--pid",
        "--fork",
        "--mount-proc",
        sys.executable,
        "-c",
        REUSE,
        str(tmp_path),
        *supervisor,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "None\n", done.stderr
