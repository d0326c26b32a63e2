"""The window resource on a real tmux: exit codes, logs, restarts, adoption, diffs."""

from __future__ import annotations

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from symphony_tmux.processes import launch_file
from symphony_tmux.processes.environment import RESERVED
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import windows
from symphony_tmux.tmux import client


def test_short_processes_lose_no_output(rig: Any) -> None:
    """100 processes write and end at once, started from four threads."""
    lines = 300
    rig.session(*(f"p{i}" for i in range(100)))
    snapshot = Snapshot()

    def run(number: int) -> dict[str, Any]:
        script = [
            f"i=0; while [ $i -lt {lines} ]; do echo line $i of {number}; i=$((i+1)); done; exit {number}"
        ]
        return windows.create(rig.inputs(f"p{number}", script=script), snapshot)[1]

    with ThreadPoolExecutor(4) as pool:
        outputs = list(pool.map(run, range(100)))
    rig.until(lambda: all(pane.pane_dead == "1" for pane in rig.tmux.panes), 30)
    for number, output in enumerate(outputs):
        expected = "".join(f"line {i} of {number}\r\n" for i in range(lines))
        assert rig.printed(output).decode() == expected
        assert rig.condition(output).pane.exit_code == number


def test_inherited_values_are_neither_in_the_state_nor_in_the_tmux_server(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "SYMCANARY-2")
    session = rig.session("a")
    outputs = rig.start("a", "sleep", "100", inherit=["TOKEN"], env={"SECRET": "SYMCANARY-3"})
    assert "SYMCANARY-2" not in str(outputs)
    server = Path(f"/proc/{session['server_pid']}")
    shown = (server / "environ").read_bytes() + (server / "cmdline").read_bytes()
    shown += str(rig.tmux.cmd("show-environment", "-g").stdout).encode()
    shown += str([pane.pane_start_command for pane in rig.tmux.panes]).encode()
    assert b"processes/a" in shown
    assert b"SYMCANARY" not in shown


def test_a_changed_path_of_the_caller_restarts_nothing(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.session("a")
    outputs = rig.start("a", "sleep", "100")
    monkeypatch.setenv("PATH", "/somewhere:" + os.environ["PATH"])
    assert windows.diff(outputs, rig.inputs("a", "sleep", "100"), Snapshot()).changed == ()


def test_conditions_and_diff_reasons(rig: Any) -> None:
    rig.session("a", "b", "c", "d")
    a, b, c = rig.start("a", "sleep", "100"), rig.start("b", "sh", "-c", "exit 3"), rig.start("c", "true")
    d = rig.start("d", "sleep", "100")
    rig.ended(b)
    rig.ended(c)
    rig.pane(d).kill()
    assert windows.diff(a, rig.inputs("a", "sleep", "100"), Snapshot()) == windows.Difference()
    assert windows.diff(c, rig.inputs("c", "true"), Snapshot()) == windows.Difference()
    assert windows.diff(b, rig.inputs("b", "sh", "-c", "exit 3"), Snapshot()).changed == ("status",)
    assert rig.condition(b).reason == "it exited with code 3"
    assert windows.diff(d, rig.inputs("d", "sleep", "100"), Snapshot()).changed == ("status",)
    assert rig.condition(d).reason == "its window is gone"
    os.kill(a["pid"], signal.SIGKILL)
    assert rig.ended(a).reason == "its supervisor was killed by signal 9 (SIGKILL)"
    assert windows.read(d, Snapshot()) is None
    assert (windows.read(b, Snapshot()) or {})["status"] == "failed: it exited with code 3"
    assert rig.condition({**b, "boot_id": "other"}).reason == "the host was rebooted"
    assert rig.condition({**c, "pid": 1.0}).reason.startswith("another process")


def test_a_window_that_the_user_renamed_or_moved_is_found(rig: Any) -> None:
    rig.session("a")
    outputs = rig.start("a", "sleep", "100")
    pane = rig.pane(outputs)
    pane.window.rename_window("x|y z")
    pane.session.rename_session("other")
    pane.cmd("split-window", "-d", "sleep", "50")
    pane.cmd("break-pane", "-d", "-s", outputs["pane_id"], target=None)
    assert rig.condition(outputs).state == "running"
    assert len([pane for pane in client.list_panes("default").panes if pane.path]) == 1
    windows.delete(outputs, Snapshot())
    assert not rig.living()


def test_a_changed_grace_does_not_restart(rig: Any) -> None:
    rig.session("a")
    outputs = rig.start("a", "sleep", "100", services={"SYMPH_PS_PORT": "1"})
    news = rig.inputs("a", "sleep", "100", services={"SYMPH_PS_PORT": "1"}, grace=0.5)
    assert windows.diff(outputs, news, Snapshot()).changed == ("grace",)
    after = windows.update(outputs, news, Snapshot())
    assert (after["pid"], after["attempt"], after["grace"]) == (outputs["pid"], 1, 0.5)
    assert windows.diff(after, news, Snapshot()).changed == ()
    assert windows.create(news, Snapshot())[1]["pid"] == outputs["pid"], "it is adopted"


def test_create_adopts_a_process_with_equal_inputs_and_replaces_another(rig: Any) -> None:
    """A completed one is adopted too, a failed one starts again."""
    rig.session("a", "b", "c")
    first, done, failed = rig.start("a", "sleep", "100"), rig.start("b", "true"), rig.start("c", "false")
    assert rig.start("a", "sleep", "100")["pid"] == first["pid"]
    other = rig.start("a", "sleep", "200")
    assert (other["attempt"], other["pid"] != first["pid"]) == (2, True)
    again = windows.update(first, rig.inputs("a", "sleep", "200"), Snapshot())
    assert (again["attempt"], again["pid"]) == (2, other["pid"]), "a killed run had started it"
    rig.ended(done)
    rig.ended(failed)
    assert len({process.session for process in rig.living()}) == 1
    assert rig.start("b", "true")["status"] == "completed"
    assert rig.start("c", "false")["attempt"] == 2


def test_outputs_with_float_numbers_from_the_state_are_accepted(rig: Any) -> None:
    rig.session("a")
    outputs = rig.start("a", "sleep", "100")
    floats = {key: float(value) if isinstance(value, int) else value for key, value in outputs.items()}
    assert windows.diff(floats, rig.inputs("a", "sleep", "100"), Snapshot()).changed == ()
    read = windows.read(floats, Snapshot())
    assert read is not None
    assert (read["pid"], read["attempt"]) == (outputs["pid"], 1)
    assert all(isinstance(read[name], int) for name in ("pid", "start_time", "attempt"))
    windows.delete(floats, Snapshot())


def test_delete_is_idempotent_and_keeps_the_log(rig: Any) -> None:
    rig.session("a")
    outputs = rig.start("a", "sleep", "100")
    windows.delete(outputs, Snapshot())
    windows.delete(outputs, Snapshot())
    assert not rig.living()
    folder = Path(outputs["log"]).parent
    # The supervisor writes the index; it may have been stopped before.
    assert {entry.name for entry in folder.iterdir()} - {"index"} == {"log"}


def test_commands_longer_than_a_tmux_message_arrive(rig: Any) -> None:
    rig.session("a", "b")
    words = ["x" * 100_000, "y" * 20_000, ";", "#(touch /tmp/x)", "end;"]
    a = rig.start("a", "sh", "-c", 'printf "%s\\n" "$#" ${#1} ${#2} "$3" "$4" "$5"', "sh", *words)
    b = rig.script("b", "# " + "z" * 1_000_000, "echo done")
    rig.ended(a)
    rig.ended(b)
    assert rig.printed(a).decode().split() == ["5", "100000", "20000", ";", "#(touch", "/tmp/x)", "end;"]
    assert rig.printed(b) == b"done\r\n"


def test_declared_variables_that_bash_knows_reach_a_script(rig: Any) -> None:
    """All that bash knows except refused ones, PATH and three that steer bash; also COLUMNS and LINES."""
    known = set(re.findall(rb"[A-Z][A-Z_]{2,20}", Path(launch_file.bash()).read_bytes()))
    ours = {"SYMPHONY_ID", "PATH", "BASH_ENV", "BASH_XTRACEFD", "EXECIGNORE"}
    wanted = {each.decode() for each in known} - set(RESERVED) - ours | {"COLUMNS", "LINES"}
    env = dict.fromkeys(sorted(wanted), "7") | {"file": str(rig.home / "file")}
    rig.session("a")
    outputs = rig.script("a", "/usr/bin/env true", 'exec cat /proc/self/environ >"$file"', env=env)
    assert rig.ended(outputs).pane.exit_code == 0
    result = dict(entry.split("=", 1) for entry in Path(env["file"]).read_text().split("\0") if entry)
    assert {name: result.get(name) for name in env} == env
