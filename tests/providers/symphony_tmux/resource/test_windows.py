"""The window resource on a real tmux: exit codes, logs, restarts, adoption, diffs."""

from __future__ import annotations

import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from symphony.errors import SymphonyError, UserError
from symphony_tmux import logs as reader
from symphony_tmux.processes import launch_file
from symphony_tmux.processes.environment import RESERVED
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import windows
from symphony_tmux.tmux import client


def ended_attempts(outputs: dict[str, Any]) -> list[tuple[int, str, int]]:
    """Return each ended attempt of the log: its number, the kind of end, the code or signal."""
    return [(number, mark.event, mark.number) for number, _, mark in reader.attempts(outputs["log"]) if mark]


def test_exit_codes_and_killing_signals_are_recorded(rig: Any) -> None:
    codes, signals = (0, 1, 7, 126, 127, 137, 255), (1, 2, 3, 6, 9, 11, 13, 15)
    rig.session(*(f"exit-{code}" for code in codes), *(f"signal-{number}" for number in signals))
    exited = {code: rig.start(f"exit-{code}", "sh", "-c", f"exit {code}") for code in codes}
    killed = {number: rig.start(f"signal-{number}", "sh", "-c", f"kill -{number} $$") for number in signals}
    for code, outputs in exited.items():
        result = rig.ended(outputs)
        assert (result.pane.exit_code, result.pane.signal) == (code, None)
        assert result.state == ("failed" if code else "completed")
        assert ended_attempts(outputs) == [(1, "exit", code)]
    for number, outputs in killed.items():
        result = rig.ended(outputs)
        assert result.pane.signal == number
        assert signal.Signals(number).name in result.reason


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


def test_environment_of_a_process_is_exact(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name not in ("SYMPHONY_HOME", "PATH"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SYMCANARY-1")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("EXTRA", "mine")
    monkeypatch.setenv("VIRTUAL_ENV", "/venv")
    rig.session("a")
    outputs = rig.start(
        "a",
        "cat",
        "/proc/self/environ",
        env={"EXTRA": "declared", "X": "a b"},
        services={"SYMPH_PS_PORT": "7"},
        inherit=["WANDB_*", "EXTRA"],
    )
    rig.ended(outputs)
    result = dict(entry.split("=", 1) for entry in rig.printed(outputs).decode().split("\0") if "=" in entry)
    result.pop("PWD")
    assert result == {
        "PATH": os.environ["PATH"],
        "LC_ALL": "C.UTF-8",
        "WANDB_MODE": "offline",
        "EXTRA": "declared",
        "VIRTUAL_ENV": "/venv",
        "X": "a b",
        "SYMPH_PS_PORT": "7",
        "SYMPHONY_ID": f"{rig.owner}/a/1",
        "SYMPHONY_ROLE": "a",
        "SYMPHONY_HOME": str(rig.home),
        "PYTHONUNBUFFERED": "1",
    }


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


def test_preamble_script_and_start_dir_apply(rig: Any, tmp_path: Path) -> None:
    rig.session("a", "b")
    folder = tmp_path / "a 'folder'; #(x)"
    folder.mkdir()
    a = rig.start(
        "a", "sh", "-c", 'echo "$0|$V|$PWD"', "$HOME;", preamble=["export V='x y'"], cwd=str(folder)
    )
    b = rig.script("b", "echo $V", "[[ 1 == 1 ]] && exit 4", preamble=["V=1"])
    assert rig.ended(a).state == "completed"
    assert rig.printed(a).decode() == f"$HOME;|x y|{folder}\r\n"
    assert rig.ended(b).pane.exit_code == 4
    assert rig.printed(b) == b"1\r\n"


def test_a_missing_start_dir_is_refused(rig: Any) -> None:
    rig.session("a")
    with pytest.raises(UserError, match="/no/such does not exist"):
        rig.start("a", "true", cwd="/no/such")
    assert not rig.living()


def test_a_restart_keeps_the_window_and_increments_the_attempt(rig: Any) -> None:
    rig.session("a", "b")
    old, other = rig.start("a", "sleep", "100"), rig.start("b", "sleep", "100")
    news = rig.inputs("a", "sleep", "200")
    assert windows.diff(old, news, Snapshot()).changed == ("argv",)
    new = windows.update(old, news, Snapshot())
    assert (new["attempt"], new["argv"]) == (2, ["sleep", "200"])
    assert new["pid"] != old["pid"]
    assert rig.condition(other).state == "running"
    result = {window.window_name: window.window_index for window in rig.tmux.windows}
    assert result == {"symphony": "0", "a": "1", "b": "2"}
    assert sorted(
        process.marker for process in rig.living() if process.parent == rig.session_outputs["server_pid"]
    ) == [
        f"{rig.owner}/a/2",
        f"{rig.owner}/b/1",
    ]


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
    rig.session("a")
    first = rig.start("a", "sleep", "100")
    assert rig.start("a", "sleep", "100")["pid"] == first["pid"]
    other = rig.start("a", "sleep", "200")
    assert (other["attempt"], other["pid"] != first["pid"]) == (2, True)
    assert len({process.session for process in rig.living()}) == 1


def test_create_adopts_a_completed_process_but_restarts_a_failed_one(rig: Any) -> None:
    rig.session("a", "b")
    done, failed = rig.start("a", "true"), rig.start("b", "false")
    rig.ended(done)
    rig.ended(failed)
    assert rig.start("a", "true")["status"] == "completed"
    assert rig.start("b", "false")["attempt"] == 2


def test_update_adopts_a_process_that_a_killed_run_restarted(rig: Any) -> None:
    rig.session("a")
    old = rig.start("a", "sleep", "100")
    news = rig.inputs("a", "sleep", "200")
    lost = windows.update(old, news, Snapshot())
    again = windows.update(old, news, Snapshot())
    assert (again["pid"], again["attempt"]) == (lost["pid"], 2)


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


def test_other_host_is_refused(rig: Any) -> None:
    rig.session("a")
    outputs = {**rig.start("a", "sleep", "100"), "host": "far-away"}
    news = rig.inputs("a", "sleep", "100")
    for call in (
        lambda: windows.diff(outputs, news, Snapshot()),
        lambda: windows.update(outputs, news, Snapshot()),
        lambda: windows.read(outputs, Snapshot()),
        lambda: windows.delete(outputs, Snapshot()),
    ):
        with pytest.raises(SymphonyError, match="started on host far-away"):
            call()
    assert rig.condition(outputs).state == "elsewhere"
    assert rig.living()


def test_commands_longer_than_a_tmux_message_arrive(rig: Any) -> None:
    rig.session("a", "b")
    words = ["x" * 100_000, "y" * 20_000, ";", "#(touch /tmp/x)", "end;"]
    a = rig.start("a", "sh", "-c", 'printf "%s\\n" "$#" ${#1} ${#2} "$3" "$4" "$5"', "sh", *words)
    b = rig.script("b", "# " + "z" * 1_000_000, "echo done")
    rig.ended(a)
    rig.ended(b)
    assert rig.printed(a).decode().split() == ["5", "100000", "20000", ";", "#(touch", "/tmp/x)", "end;"]
    assert rig.printed(b) == b"done\r\n"


def test_launch_and_exit_times_are_exact(rig: Any) -> None:
    rig.session("a")
    before = time.time()
    outputs = rig.start("a", "sleep", "0.3")
    rig.ended(outputs)
    _, began, mark = reader.attempts(outputs["log"])[0]
    assert before <= outputs["launched"] <= began + 0.001
    assert mark is not None
    assert 0.3 <= mark.time - began < 3


def test_declared_variables_that_bash_knows_reach_a_script(rig: Any) -> None:
    """All that bash knows except refused ones; also COLUMNS and LINES."""
    known = set(re.findall(rb"[A-Z][A-Z_]{2,20}", Path(launch_file.bash()).read_bytes()))
    ours = {"SYMPHONY_ID", "PATH", "BASH_ENV", "BASH_XTRACEFD", "EXECIGNORE"}
    wanted = {each.decode() for each in known} - set(RESERVED) - ours | {"COLUMNS", "LINES"}
    env = dict.fromkeys(sorted(wanted), "7") | {"file": str(rig.home / "file")}
    rig.session("a")
    outputs = rig.script("a", "/usr/bin/env true", 'exec cat /proc/self/environ >"$file"', env=env)
    assert rig.ended(outputs).pane.exit_code == 0
    result = dict(entry.split("=", 1) for entry in Path(env["file"]).read_text().split("\0") if entry)
    assert {name: result.get(name) for name in env} == env
