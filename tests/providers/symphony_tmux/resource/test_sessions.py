"""The session resource on a real tmux: adoption, foreign sessions, orphans, repair, delete."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from symphony.backends.tmux import observe as tmux_observe
from symphony.errors import SymphonyError, UserError
from symphony_tmux import experiment_folder, leases
from symphony_tmux.processes import process_table
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import sessions, windows
from symphony_tmux.tmux import client, server
from tests.sandbox import tmux_in


def test_the_first_window_shows_help_and_runs_no_process(rig: Any) -> None:
    outputs = rig.session()
    rig.until(lambda: rig.tmux.panes[0].pane_dead == "1")
    (session,) = rig.tmux.sessions
    assert (session.session_name, session.session_id) == ("rl", outputs["session_id"])
    assert "Experiment rl" in "\n".join(session.active_pane.capture_pane())
    assert not rig.living()


def test_a_session_of_another_stack_is_refused(rig: Any) -> None:
    rig.session("a")
    with pytest.raises(UserError, match="the tmux session rl belongs to proj/rl"):
        sessions.create(rig.session_inputs("a", owner="other/x.rl#ffff0000"), Snapshot())
    with pytest.raises(UserError, match="belongs to proj/rl"):
        windows.create(rig.inputs("a", "true", owner="other/x.rl#ffff0000"), Snapshot())
    assert not rig.living()


@pytest.mark.thorough
def test_concurrent_creates_start_one_server(home: Path) -> None:
    """Six experiments start at once on a machine without a tmux server."""
    code = (
        "import sys; from symphony_tmux.resource import sessions\n"
        "from symphony_tmux.processes.snapshot import Snapshot\n"
        "n=sys.argv[1]; i=dict(name='e'+n,owner=f'p/e{n}#1',server='default',processes=[],grace=1)\n"
        "o=sessions.create(i,Snapshot())\n"
        "print(o[1]['server_pid'])"
    )
    run = [
        subprocess.Popen([sys.executable, "-c", code, str(n)], stdout=subprocess.PIPE, text=True)
        for n in range(6)
    ]
    result = {child.communicate()[0].strip() for child in run}
    assert len(result) == 1
    assert len(tmux_in(home).sessions) == 6


@pytest.mark.thorough
def test_sessions_start_while_the_server_is_ending(home: Path) -> None:
    """Sessions end, and with the last one the server, while others start and need a new server."""

    def each(number: int) -> None:
        for _ in range(4):
            outputs = sessions.create(
                {
                    "name": f"e{number}",
                    "owner": f"p/e{number}#1",
                    "server": "default",
                    "processes": [],
                    "grace": 0.0,
                },
                Snapshot(),
            )[1]
            sessions.delete(outputs, Snapshot())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(each, range(4)))
    assert list(tmux_in(home).sessions) == []


def test_orphans_are_found_by_check_and_ended_by_update(rig: Any) -> None:
    old = rig.session("a")
    rig.start("a", "sleep", "100")
    orphan = rig.start("g/x", "sh", "-c", "trap '' TERM; sleep 100", grace=0.2)
    declared = rig.session_inputs("a", grace=0.2)
    assert sessions.orphans(declared, old, Snapshot()) == ["g/x"]
    assert sessions.orphans(rig.session_inputs("a", "g/x"), old, Snapshot()) == []
    assert sessions.orphans(declared, rig.session_inputs("a", "g/x"), Snapshot()) == []
    news = {**declared, "strays": ["g/x"]}
    assert sessions.diff(old, news, Snapshot()).changed == ("grace", "strays")
    new = sessions.update(old, news, Snapshot())
    assert "strays" not in new
    assert rig.condition(orphan).state == "lost"
    assert {process.marker for process in rig.living()} == {f"{rig.owner}/a/1"}


def test_a_killed_server_is_replaced_and_trees_that_survived_it_end(rig: Any) -> None:
    """Those of a declared process, so that none runs twice, and those of an orphan."""
    old = rig.session("a")
    ignores = "trap '' HUP; echo up; setsid sleep 100 & wait; while :; do sleep 100; done"
    declared = rig.start("a", "sh", "-c", ignores, grace=0.2)
    orphan = rig.start("b", "sh", "-c", ignores, grace=0.2)
    rig.until(lambda: all(b"up" in rig.printed(outputs) for outputs in (declared, orphan)))
    os.kill(old["server_pid"], signal.SIGKILL)
    rig.until(lambda: process_table.start_of(old["server_pid"]) == 0)
    assert {f"{rig.owner}/a/1", f"{rig.owner}/b/1"} == {process.marker for process in rig.living()}
    gone = "the tmux server is gone"
    assert rig.condition(declared).reason == windows.reason(declared, Snapshot()) == gone
    assert sessions.reason(rig.session_inputs("a"), Snapshot()) == gone
    assert sessions.read(old, Snapshot()) is None
    assert sessions.orphans(rig.session_inputs("a"), old, Snapshot()) == ["b"]
    new = sessions.update(old, {**rig.session_inputs("a"), "strays": ["b"]}, Snapshot())
    assert new["server_pid"] != old["server_pid"]
    again = windows.update(declared, rig.inputs("a", "sleep", "100", grace=0.2), Snapshot())
    # Between fork and exec, a new process still has the environment of the server.
    rig.until(lambda: {process.marker for process in rig.living()} == {f"{rig.owner}/a/2"})
    assert again["attempt"] == 2


def test_diff_detects_a_reboot(rig: Any) -> None:
    old = {**rig.session("a"), "boot_id": "before"}
    rig.tmux.kill_session(old["session_id"])
    assert sessions.diff(old, rig.session_inputs("a"), Snapshot()).changed == ("session_id",)


def test_adding_or_removing_a_process_does_not_change_the_session(rig: Any) -> None:
    old = rig.session("a")
    assert sessions.diff(old, rig.session_inputs("a", "b"), Snapshot()).changed == ()
    assert sessions.diff(old, rig.session_inputs(), Snapshot()).changed == ()
    assert sessions.diff(old, rig.session_inputs("a", grace=9.0), Snapshot()).changed == ("grace",)
    assert sessions.diff(old, rig.session_inputs("a", name="x"), Snapshot()).replaced == ("name",)


def test_delete_stops_all_processes_within_one_grace_period(rig: Any) -> None:
    outputs = rig.session(*(f"p{i}" for i in range(20)), grace=1.0)
    for number in range(20):
        rig.start(
            f"p{number}", "sh", "-c", "trap '' TERM HUP; setsid sleep 100 & while :; do sleep 100; done"
        )
    leases.lease(rig.owner, {"ps": None})
    began = time.monotonic()
    sessions.delete(outputs, Snapshot())
    assert time.monotonic() - began < 15, "one after the other they take 20 s"
    assert not rig.living()
    assert not (rig.home / "experiments" / "rl").exists()
    assert leases.all_leases() == {}
    assert not rig.tmux.is_alive()
    sessions.delete(outputs, Snapshot())


def test_delete_leaves_sessions_and_files_of_another_owner(rig: Any) -> None:
    outputs = rig.session("a")
    rig.tmux.kill_session(outputs["session_id"])
    other = sessions.create(rig.session_inputs("a", owner="p/y#1"), Snapshot())[1]
    running = windows.create(rig.inputs("a", "sleep", "100", owner="p/y#1"), Snapshot())[1]
    sessions.delete(outputs, Snapshot())
    assert rig.condition(running).state == "running"
    assert Path(running["log"]).exists()
    rig.tmux.kill_session("rl")
    sessions.delete(outputs, Snapshot())
    folder = rig.home / "experiments" / "rl"
    assert experiment_folder.owner_of(folder) == "p/y#1"
    sessions.delete(other, Snapshot())
    assert not folder.exists()


def test_tampered_names_in_the_state_are_refused(rig: Any) -> None:
    victim = rig.home.parent / "victim"
    victim.mkdir()
    session = rig.session("a")
    window = rig.start("a", "sleep", "100")
    values: tuple[object, ...] = ("../../victim", "", 5, "a\nb", "/etc")
    for field, value in itertools.product(("name", "server", "owner", "path", "session"), values):
        tampered = window if field in ("path", "session") else session
        module = windows if field in ("path", "session") else sessions
        for call in (module.delete, module.read):
            with pytest.raises(SymphonyError, match=f"changed by hand: its {field} is"):
                call({**tampered, field: value}, Snapshot())
    assert victim.exists()
    assert rig.condition(window).state == "running"


def test_the_same_name_on_another_tmux_server_is_another_experiment(rig: Any) -> None:
    rig.session("a")
    mine = rig.start("a", "sh", "-c", "echo mine; sleep 100")
    lab = {"server": "lab", "owner": "proj/lab#abcd1234"}
    other = sessions.create(rig.session_inputs("a", **lab), Snapshot())[1]
    others = windows.create(rig.inputs("a", "sh", "-c", "echo others; sleep 100", **lab), Snapshot())[1]
    rig.until(lambda: rig.printed(mine) == b"mine\r\n" and rig.printed(others) == b"others\r\n")
    sessions.delete(other, Snapshot())
    assert rig.condition(mine).state == "running"
    assert rig.printed(mine) == b"mine\r\n"
    assert sessions.orphans(rig.session_inputs("a"), rig.session_outputs, Snapshot()) == []


def test_delete_owned_finds_processes_of_a_killed_first_up_on_any_server(rig: Any) -> None:
    """The state has nothing of them, not even the name of the server."""
    server = "lab"
    outputs = sessions.create(rig.session_inputs("a", server=server), Snapshot())[1]
    windows.create(rig.inputs("a", "sleep", "100", server=server), Snapshot())
    assert tmux_observe.delete_owned("proj/other#1", "rl") == 0
    assert [each.session_name for each in tmux_in(rig.home, server).sessions] == ["rl"]
    assert tmux_observe.delete_owned(rig.owner, "rl") == 1
    assert not rig.living()
    assert not tmux_in(rig.home, server).is_alive()
    assert not list((rig.home / "experiments").iterdir())
    assert tmux_observe.delete_owned(rig.owner, "rl") == 0
    assert outputs["server"] == server


def test_an_experiment_of_another_host_is_refused(rig: Any) -> None:
    session = {**rig.session("a"), "host": "far-away"}
    window = {**rig.start("a", "sleep", "100"), "host": "far-away"}
    for module, olds, news in (
        (sessions, session, rig.session_inputs("a")),
        (windows, window, rig.inputs("a", "sleep", "100")),
    ):
        for verb, words in (
            ("diff", (olds, news)),
            ("update", (olds, news)),
            ("read", (olds,)),
            ("delete", (olds,)),
        ):
            with pytest.raises(SymphonyError, match="started on host far-away"):
                getattr(module, verb)(*words, Snapshot())
    assert rig.condition(window).state == "elsewhere"
    assert rig.living()


def test_the_tmux_server_has_a_clean_environment_and_the_maximum_of_descriptors(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SYMCANARY-5")
    outputs = rig.session()
    process = Path(f"/proc/{outputs['server_pid']}")
    variables = {
        entry.split(b"=")[0].decode() for entry in (process / "environ").read_bytes().split(b"\0") if entry
    }
    assert variables <= {*client.CLEAN, "PWD", "OLDPWD", "SHLVL", "_"}
    limits = next(
        line for line in (process / "limits").read_text().splitlines() if line.startswith("Max open files")
    )
    assert limits.split()[3] == limits.split()[4]
    assert os.getsid(outputs["server_pid"]) != os.getsid(0)


def test_a_tmux_folder_of_another_user_is_refused(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.getuid():
        pytest.skip("only root can give a folder away")
    (rig.home / "tmux").mkdir()
    os.chown(rig.home / "tmux", 65534, 65534)
    with pytest.raises(SymphonyError, match="belongs to another user"):
        rig.session()
    os.chown(rig.home / "tmux", 0, 0)


def test_a_second_concurrent_run_of_an_experiment_is_refused(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment_folder, "LOCK_SECONDS", 0.3)
    code = "import time; from symphony_tmux import experiment_folder; experiment_folder.lock('default', 'rl')"
    code += "; print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(SymphonyError, match="experiment rl is busy"):
            rig.session()
        other.kill()
    rig.session()


def test_updates_work_after_the_user_closed_the_help_window(rig: Any) -> None:
    outputs = rig.session("a")
    process = rig.start("a", "sleep", "100")
    rig.tmux.sessions[0].kill_window("symphony")
    assert server.ensure_session("default", "rl", rig.owner, Snapshot()).session_id == outputs["session_id"]
    # Restarting the only window of a session ends the session in between.
    new = windows.update(process, rig.inputs("a", "sleep", "200"), Snapshot())
    assert rig.condition(new).state == "running"
