"""Stopping a process ends its whole tree and nothing else: daemons, ignored signals, reused pids."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from symphony_tmux.processes import observe, process_table, stop
from symphony_tmux.processes.process_table import Identity, Process
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import windows
from tests.sandbox import tmux_in

DAEMON = """
import os, signal, sys, time
for name in ("SIGHUP", "SIGTERM"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {clear}
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(1000)
    os._exit(0)
time.sleep(1000)
"""


def _pid_in(rig: Any, file: Path) -> int:
    rig.until(lambda: file.exists() and file.read_text())
    return int(file.read_text())


CASES = {
    "ignores": ["sh", "-c", "trap '' HUP TERM INT; while :; do sleep 100; done"],
    "children": ["sh", "-c", "sleep 100 & (sleep 100; :) & setsid sleep 100 & wait"],
    "stopped": ["sh", "-c", "kill -STOP $$; sleep 100"],
}


def test_delete_ends_the_whole_process_tree(rig: Any) -> None:
    rig.session("other", *CASES)
    other = rig.start("other", "sleep", "100")
    started = {name: rig.start(name, *command, grace=0.3) for name, command in CASES.items()}
    time.sleep(0.3)
    for name, outputs in started.items():
        assert any(process.marker == f"{rig.owner}/{name}/1" for process in rig.living())
        windows.delete(outputs, Snapshot())
        assert not [process for process in rig.living() if f"/{name}/" in process.marker]
    assert rig.condition(other).state == "running"


SCRUBBED = """
        if os.fork():
            os._exit(0)
        open(sys.argv[1], "w").write(str(os.getpid()))
        os.execve("/bin/sleep", ["sleep", "1000"], {})
"""


def test_delete_works_without_pidfd_open(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(number: int, pid: int, flags: int = 0) -> int:
        raise OSError(number, os.strerror(number))

    numbers = (errno.ENOSYS, errno.EPERM, errno.EMFILE)
    rig.session("a", "b", "c")
    started = [rig.start(name, "sleep", "100") for name in "abc"]
    for number, outputs in zip(numbers, started, strict=True):
        monkeypatch.setattr(os, "pidfd_open", partial(refused, number))
        windows.delete(outputs, Snapshot())
    assert not rig.living()


def test_delete_ends_a_daemonized_process(rig: Any) -> None:
    """The daemon has no environment, its own session and no parent: the supervisor adopts it."""
    rig.session("a")
    file = rig.home / "pid"
    outputs = rig.start("a", sys.executable, "-c", DAEMON.format(clear=SCRUBBED), str(file), grace=0.3)
    pid = _pid_in(rig, file)
    rig.until(lambda: (result := process_table.process(pid)) and result.marker == "")
    rig.until(lambda: (result := process_table.process(pid)) and result.parent == outputs["pid"])
    windows.delete(outputs, Snapshot())
    assert process_table.start_of(pid) == 0


def test_children_left_by_an_exited_process_are_ended(rig: Any) -> None:
    rig.session("a")
    file = rig.home / "pid"
    code = DAEMON.format(clear=SCRUBBED).removesuffix("time.sleep(1000)\n") + "time.sleep(0.5); sys.exit(3)"
    outputs = rig.start("a", sys.executable, "-c", code, str(file), grace=0.3)
    pid = _pid_in(rig, file)
    assert rig.ended(outputs).pane.exit_code == 3
    assert process_table.start_of(pid) == 0


def test_children_left_behind_get_the_grace_period_and_their_output_is_logged(rig: Any) -> None:
    rig.session("a")
    left = "trap 'sleep 0.3; echo saved; exit' TERM; echo up; while :; do sleep 0.05; done"
    outputs = rig.start("a", "sh", "-c", 'setsid sh -c "$0" & sleep 0.3; exit 4', left, grace=60.0)
    assert rig.ended(outputs, 30).pane.exit_code == 4
    assert rig.printed(outputs) == b"up\r\nsaved\r\n"


NESTED = """
import os, sys
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import sessions, windows
server = sys.argv[1]
owner = os.environ["INNER"] + server
sessions.create({"name": "in", "server": server, "owner": owner, "processes": ["a"]}, Snapshot())
inputs = {"session": "in", "server": server, "owner": owner, "path": "a", "cwd": "/"}
windows.create({**inputs, "argv": ["sleep", "100"]}, Snapshot())
print("made", flush=True)
"""


def test_an_experiment_started_by_a_process_on_another_tmux_server_survives_it(rig: Any) -> None:
    rig.session("a", "b")
    env = {"INNER": f"{rig.owner}in", "SYMPHONY_HOME": str(rig.home)}
    run = '"$0" -c "$1" "$2"; '
    gone = rig.start("a", "sh", "-c", f"{run} exit 0", sys.executable, NESTED, "one", env=env, grace=0.2)
    kept = rig.start("b", "sh", "-c", f"{run} sleep 100", sys.executable, NESTED, "two", env=env, grace=0.2)
    assert rig.ended(gone).state == "completed"
    rig.until(lambda: b"made" in rig.printed(kept))
    windows.delete(kept, Snapshot())
    for name in ("one", "two"):
        server = tmux_in(rig.home, name)
        (window,) = (each for each in server.windows if each.window_name == "a")
        assert window.active_pane is not None
        assert window.active_pane.pane_dead == "0"
        server.kill()


def test_a_supervisor_without_child_is_not_taken_for_the_program() -> None:
    with subprocess.Popen(["perl", "-e", "$| = 1; print 'up'; sleep 60"], stdout=subprocess.PIPE) as perl:
        assert perl.stdout is not None
        assert perl.stdout.read(2) == b"up"
        try:
            assert observe.program({"pid": perl.pid}) == 0
        finally:
            perl.kill()


@pytest.mark.parametrize("again", ["up", "delete"])
def test_up_or_delete_ends_the_tree_of_a_killed_supervisor(rig: Any, again: str) -> None:
    """The process ignores its signals and has a child in a session of its own."""
    rig.session("a")
    file = rig.home / "pid"
    command = [sys.executable, "-c", DAEMON.format(clear="pass"), str(file)]
    outputs = rig.start("a", *command, grace=0.2)
    left = _pid_in(rig, file)
    started = process_table.process(observe.program(outputs))
    assert started is not None
    os.kill(outputs["pid"], signal.SIGKILL)
    rig.until(lambda: not process_table.alive([started.identity]))
    if again == "up":
        file.unlink()
        windows.update(outputs, rig.inputs("a", *command, grace=0.2), Snapshot())
        rig.until(file.exists)
    else:
        windows.delete(outputs, Snapshot())
    assert process_table.start_of(left) == 0


def test_the_supervisor_reaps_adopted_zombies(rig: Any) -> None:
    rig.session("a")
    outputs = rig.start(
        "a", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do (sleep 0.1 &) ; done; echo up; sleep 100"
    )
    rig.until(lambda: b"up" in rig.printed(outputs))
    children = Path(f"/proc/{outputs['pid']}/task/{outputs['pid']}/children")
    rig.until(lambda: len(children.read_text().split()) == 1)


def test_delete_sends_sigterm_first_and_the_last_output_is_logged(rig: Any) -> None:
    rig.session("a")
    outputs = rig.start(
        "a",
        "sh",
        "-c",
        "trap 'sleep 0.2; echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done",
        grace=60,
    )
    rig.until(lambda: b"up" in rig.printed(outputs))
    began = time.monotonic()
    windows.delete(outputs, Snapshot())
    assert time.monotonic() - began < 30
    assert rig.printed(outputs).startswith(b"up\r\n")
    assert rig.printed(outputs).endswith(b"saved\r\n")


def test_processes_of_others_are_never_signalled(rig: Any) -> None:
    """They have a similar marker, or a pid that was once in the experiment."""
    rig.session("a", "a/b")
    outputs = rig.start("a", "sleep", "100")
    markers = [
        f"{rig.owner}/a/x",
        f"{rig.owner}/a/b/1",
        f"{rig.owner}0/a/1",
        f"x{rig.owner}/a/1",
        f"{rig.owner}/a/1/",
    ]
    strangers = [subprocess.Popen(["sleep", "100"], env={"SYMPHONY_ID": marker}) for marker in markers]
    strangers.append(subprocess.Popen(["sleep", "100"]))
    try:
        old = {**outputs, "pid": strangers[-1].pid, "start_time": 1}
        windows.delete(old, Snapshot())
        assert not [process for process in rig.living() if process.marker == f"{rig.owner}/a/1"]
        assert [process.poll() for process in strangers] == [None] * len(strangers)
    finally:
        for process in strangers:
            process.kill()
            process.wait()


def test_a_reused_pid_is_not_signalled() -> None:
    stranger = subprocess.Popen(["sleep", "100"])
    try:
        result = process_table.process(stranger.pid)
        assert result is not None
        before = Process(result.pid, result.start - 1, 1, result.pid, False, "o/s#1/a/1")
        stop._send([before], signal.SIGKILL)
        stop.take_down([before.identity], stop.marker_filter("o/s#1"), 0.1)
        time.sleep(0.05)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_session_members_count_only_while_the_session_leader_is_ours() -> None:
    leader = Process(10, 5, 1, 10, False, "")
    mate, stranger = Process(11, 6, 1, 10, False, ""), Process(12, 7, 1, 1, False, "")
    none = stop.marker_filter("o/s#1")
    assert set(stop.members([leader, mate, stranger], [leader.identity], none)) == {
        leader.identity,
        mate.identity,
    }
    assert stop.members([leader, mate, stranger], [Identity(10, 4)], none) == {}


def test_delete_from_inside_the_experiment_does_not_kill_itself() -> None:
    me = process_table.process(os.getpid())
    assert me is not None
    stop.take_down([me.identity], stop.marker_filter("o/s#1"), 0.0)


def test_delete_ends_a_fork_storm(rig: Any) -> None:
    rig.session("a")
    storm = "trap '' TERM; while :; do (sleep 0.05; sleep 100) & sleep 0.01; done"
    outputs = rig.start("a", "sh", "-c", storm, grace=0.2)
    time.sleep(0.5)
    windows.delete(outputs, Snapshot())
    assert not rig.living()


CALLED_LIKE_A_SERVER = """
        if os.fork():
            os._exit(0)
        code = "import os, sys, time; open('/proc/self/comm', 'w').write('tmux: server'); "
        code += "open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(1000)"
        os.execve(sys.executable, [sys.executable, "-c", code, sys.argv[1]], {})
"""


@pytest.mark.parametrize("then", ["sleep 100", "exit 0"])
def test_a_process_named_like_a_tmux_server_is_ended(rig: Any, then: str) -> None:
    rig.session("a")
    file = rig.home / "pid"
    code = DAEMON.format(clear=CALLED_LIKE_A_SERVER)
    body = f'"$0" -c "$1" "$2" & until [ -s "$2" ]; do sleep 0.05; done; {then}'
    outputs = rig.start("a", "sh", "-c", body, sys.executable, code, str(file), grace=0.3)
    pid = _pid_in(rig, file)
    if then == "exit 0":
        rig.ended(outputs)
    else:
        assert process_table.command_name(pid) == "tmux: server"
        windows.delete(outputs, Snapshot())
    assert process_table.start_of(pid) == 0
