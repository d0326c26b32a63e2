"""The tmux client: hostile titles and output, deadlines, a missing or old tmux, sockets."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from symphony import paths
from symphony.backends.tmux import observe
from symphony.errors import SymphonyError
from symphony_tmux.processes import observe as process_observe
from symphony_tmux.processes import process_table
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import sessions, windows
from symphony_tmux.tmux import client
from symphony_tmux.tmux.client import TmuxError
from tests import sandbox

HOSTILE = [
    r"\033]2;evil|x\n|$1|y\007",
    r"\033]2;#(touch /tmp/symphony-canary)\007",
    r"\033k#(touch /tmp/symphony-canary)\033\\",
    r"\033]2;\342\220\236\342\220\236\007",
    r"\033[?1049h\033[31m\000\377\376|||||||||||||",
    r"\033]52;c;ZXZpbA==\007",
    r"\033]7;file:///|||\n\n\007",
    r"\033P\033]7777;symphony-end-1\007",
]


def test_hostile_output_does_not_change_the_listing(rig: Any) -> None:
    rig.session(*(f"p{i}" for i in range(len(HOSTILE))))
    outputs = [
        rig.start(f"p{i}", "sh", "-c", f"printf '{text}'; sleep 100") for i, text in enumerate(HOSTILE)
    ]
    rig.until(lambda: all(rig.printed(each) for each in outputs))
    time.sleep(0.2)
    listing = client.list_panes("default")
    assert [pane.path for pane in listing.panes] == ["", *(f"p{i}" for i in range(len(HOSTILE)))]
    assert {rig.condition(output).state for output in outputs} == {"running"}
    assert [session.name for session in listing.sessions] == ["rl"]
    assert not Path("/tmp/symphony-canary").exists()


def test_binary_output_is_logged_byte_by_byte_with_the_exact_exit_code(rig: Any) -> None:
    rig.session("a")
    noise = bytes(range(256)) * 40 + b"\x1bP unfinished \x1b]2;"
    file = rig.home / "noise"
    file.write_bytes(noise)
    outputs = rig.start("a", "sh", "-c", f"stty raw -opost; cat '{_shell_path(file)}'; exit 5")
    assert rig.ended(outputs).pane.exit_code == 5
    # The supervisor ends the last line.
    assert rig.printed(outputs) == noise + b"\n"


def _shell_path(file: Path) -> str:
    return str(file).replace("'", "'\\''")


def test_a_session_created_by_the_user_is_not_an_experiment(rig: Any) -> None:
    rig.session()
    rig.tmux.new_session("my|own", window_command="sleep 50")
    assert [session.name for session in client.list_panes("default").sessions] == ["rl"]
    rig.tmux.kill_session("=my|own")


@given(st.lists(st.text(alphabet="$@%0123456789|ab# \n"), max_size=20))
def test_parse_never_raises_on_almost_valid_lines(parts: list[str]) -> None:
    client.parse("|".join(parts))


@pytest.mark.parametrize(("command", "state"), [("exit 0", "completed"), ("exit 3", "failed")])
def test_an_end_that_tmux_does_not_know_yet_is_read_from_the_log(rig: Any, command: str, state: str) -> None:
    """Otherwise a process is "failed: unknown exit code" for a moment, and blocks those that wait for it."""
    rig.session("a")
    outputs = rig.script("a", command)
    rig.ended(outputs)
    listing = client.list_panes("default")
    early = replace(listing, panes=tuple(replace(p, exit_code=None, signal=None) for p in listing.panes))
    condition = process_observe.condition(outputs, early)
    assert (condition.state, condition.reason) == (state, f"it exited with code {command[-1]}")


def test_a_stopped_server_is_resumed(rig: Any) -> None:
    server = psutil.Process(rig.session("a")["server_pid"])
    server.suspend()
    sandbox.wait_for(lambda: server.status() == psutil.STATUS_STOPPED, 5, "the server stops")
    assert [session.name for session in client.list_panes("default").sessions] == ["rl"]
    server.suspend()
    sandbox.wait_for(lambda: server.status() == psutil.STATUS_STOPPED, 5, "the server stops")
    assert observe.delete_owned(rig.owner, rig.name) == 0
    assert not client.list_panes("default").sessions


def test_a_server_that_does_not_answer_is_an_error_within_the_deadline(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.session("a")
    assert client.DEADLINE <= 10
    monkeypatch.setattr(client, "DEADLINE", 1.0)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(paths.tmux_socket("silent")))
        silent.listen()
        # The next call does not wait again: a hundred windows are read one by one.
        waited = time.monotonic()
        for _ in range(100):
            with pytest.raises(TmuxError, match="does not answer") as caught:
                client.list_panes("silent")
            assert "\n" not in str(caught.value)
        assert time.monotonic() - waited < 50
    paths.tmux_socket("silent").unlink()
    # The other servers are read.
    assert [session.name for session in client.list_panes("default").sessions] == ["rl"]


def test_a_socket_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In /tmp another user may create it first, and a tmux client obeys its server."""
    monkeypatch.setenv("SYMPHONY_HOME", str(tmp_path / ("d" * 100)))
    where = paths.tmux_socket("default")
    where.parent.mkdir(mode=0o777)
    where.parent.chmod(0o777)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(where))
            listener.listen()
            listener.settimeout(0)
            with pytest.raises(TmuxError, match="this user alone can write"):
                client.list_panes("default")
            with pytest.raises(BlockingIOError):
                listener.accept()
    finally:
        shutil.rmtree(where.parent)


@pytest.mark.usefixtures("home")
def test_a_missing_tmux_is_a_one_line_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TmuxError, match="tmux is not installed"):
        client.run("default", ["list-panes"])
    with pytest.raises(SymphonyError, match="tmux is not installed"):
        sessions.create(
            {"name": "rl", "owner": "p/rl#1", "server": "default", "processes": [], "grace": 1}, Snapshot()
        )


@pytest.mark.parametrize(
    ("version", "good"),
    [("tmux 3.1c", False), ("tmux next-3.4", True)],
)
@pytest.mark.usefixtures("home")
def test_an_old_tmux_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, good: bool
) -> None:
    started, stand_in = tmp_path / "started", tmp_path / "tmux"
    stand_in.write_text(f"#!/bin/sh\n[ \"$1\" = -V ] || : > '{started}'; echo '{version}'\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    inputs = {"name": "rl", "owner": "p/rl#1", "server": "default", "processes": [], "grace": 1}
    try:
        # The fake tmux creates no session; one that is too old is never asked to.
        with pytest.raises(SymphonyError, match="ended at once" if good else "too old"):
            sessions.create(inputs, Snapshot())
        assert started.exists() == good
    finally:
        stand_in.unlink()


def test_without_a_server_the_listing_is_empty(home: Path) -> None:
    assert client.list_panes("default") == client.Listing()
    (home / "tmux").mkdir(mode=0o700)
    (home / "tmux" / "default.sock").touch()
    assert client.list_panes("default") == client.Listing()


def test_symphony_ignores_the_users_tmux_conf_and_an_outer_tmux(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (rig.home / ".tmux.conf").write_text(
        "set -g base-index 5\nset -g remain-on-exit off\nset -g default-shell /bin/false\n"
    )
    monkeypatch.setenv("HOME", str(rig.home))
    monkeypatch.setenv("TMUX", "/tmp/nowhere,1,0")
    rig.session("a")
    assert rig.ended(rig.start("a", "sh", "-c", "exit 9")).pane.exit_code == 9


def test_a_deep_home_folder_gets_a_short_socket_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * 100)
    monkeypatch.setenv("SYMPHONY_HOME", str(deep))
    inputs = {"name": "rl", "owner": "p/rl#1", "server": "default", "processes": [], "grace": 1}
    outputs = sessions.create(inputs, Snapshot())[1]
    folder = Path(outputs["socket"]).parent
    try:
        assert len(outputs["socket"]) < 108
        assert folder.stat().st_mode & 0o777 == 0o700
    finally:
        sessions.delete(outputs, Snapshot())
        Path(outputs["socket"]).unlink(missing_ok=True)
        folder.rmdir()


def test_a_deleted_socket_does_not_lead_to_a_second_experiment(rig: Any) -> None:
    """Processes of the unreachable server are found by their marker and ended before new ones start."""
    old = rig.session("a")
    process = rig.start("a", "sleep", "100")
    Path(old["socket"]).unlink()
    new = sessions.update(old, rig.session_inputs("a"), Snapshot())
    again = windows.update(process, rig.inputs("a", "sleep", "100"), Snapshot())
    assert f"{rig.owner}/a/1" not in {each.marker for each in rig.living()}
    # It has its marker as soon as the window's shell has become the launcher.
    rig.until(lambda: {item.marker for item in rig.living()} == {f"{rig.owner}/a/2"})
    assert new["server_pid"] != old["server_pid"]
    assert rig.condition(again).state == "running"
    if process_table.start_of(old["server_pid"]):
        os.kill(old["server_pid"], signal.SIGKILL)


def test_another_user_cannot_reach_the_tmux_server(rig: Any) -> None:
    if os.getuid():
        pytest.skip("only root can become somebody else")
    outputs = rig.session("a")
    log = rig.start("a", "sleep", "100")["log"]
    for command in (["tmux", "-S", outputs["socket"], "ls"], ["cat", log], ["ls", str(rig.home / "tmux")]):
        done = subprocess.run(
            ["setpriv", "--reuid", "65534", "--clear-groups", *command], capture_output=True, check=False
        )
        assert done.returncode != 0
