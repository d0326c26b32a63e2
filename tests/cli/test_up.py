"""`symphony up`: problems before anything starts, questions, progress, interruption, concurrent runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import has_no_control
from tests.conformance.tmux_backend import TmuxBackend
from tests.sandbox import SYMPHONY, Sandbox, wait_for
from tests.terminal import terminal

TWO = """
with Experiment() as e:
    e.new_process("server", command=["sleep", "3600"]).binds("greetings")
    e.new_process("guest", command=["sleep", "3600"]).connects("greetings")
"""
PROBLEMS = """
with Experiment() as e:
    a = e.new_process("agent", command=["sleep", "1"])
    a.connects("replay-sever")
    e.new_process("learner", command=["sleep", "1"]).binds("replay-server")
    e.new_process("ps", command=["sleep", "1"]).binds("replay-server")
    e.new_process("No Name", command=["no-such-command-anywhere"])
"""


def nothing_started(sandbox: Sandbox, stack: str) -> None:
    assert sandbox.trees() == {}
    assert sandbox.servers() == []
    assert not any(each.endswith(f"/{stack}") for each in sandbox.stacks())


def test_all_problems_are_reported_at_once_with_line_and_remedy(sandbox: Sandbox) -> None:
    sandbox.write(PROBLEMS)
    text = sandbox.symphony("up", "rl", "-y", code=2).err
    for word in ("replay-sever", "replay-server", "learner", "No Name", "Nothing was started"):
        assert word in text
    rows = [row for row in text.splitlines() if row.startswith("  ")]
    # One line for each problem, with the lines of the program: the declaration, the call.
    for what, lines in (
        ("no process binds", "line 5"),
        ("both bind", "lines 6, 7"),
        ("No Name", "line 8"),
        ("no-such-command-anywhere", "line 8"),
    ):
        assert any(what in row and f"   {lines}   " in row for row in rows), f"{what}: {text}"
    nothing_started(sandbox, "rl")


# Programs that launch nothing, and what is said of them.
LAUNCHES_NOTHING = {
    "pass": "launches no experiment",
    "print('no symphony')": "launches no experiment",
    "e = Experiment()": "was declared but not launched (__main__.py:2)",
    "1 / 0": "ZeroDivisionError: division by zero (__main__.py:2)",
    "def f(:": "__main__.py:2: invalid syntax",
    "import pulumi; pulumi.Config().require('lr')": "needs the setting sandbox:lr (Pulumi.rl.yaml)",
}


@pytest.mark.thorough
def test_a_program_that_launches_nothing_is_refused_and_stops_no_process(sandbox: Sandbox) -> None:
    """No frame of symphony or Pulumi is shown."""
    sandbox.write(TWO)
    sandbox.symphony("up", "rl", "-y")
    living = sandbox.trees()
    assert set(living) == {"rl/server", "rl/guest"}
    for program, message in LAUNCHES_NOTHING.items():
        sandbox.write(program)
        refused = sandbox.symphony("up", "rl", "-y", code=2).err
        assert message in refused
        assert "site-packages" not in refused
        assert has_no_control(refused)
        assert len(refused.splitlines()) <= 5, program
        assert sandbox.trees() == living, program


@pytest.mark.thorough
def test_a_virtualenv_without_symphony_is_refused(sandbox: Sandbox) -> None:
    sandbox.write(TWO)
    own = sandbox.folder / "own"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", own], check=True, timeout=60)
    file = sandbox.folder / "Pulumi.yaml"
    file.write_text("name: symphony\nruntime:\n  name: python\n  options:\n    virtualenv: own\n")
    (line,) = sandbox.symphony("up", "rl", "-y", code=2).err.splitlines()
    assert f"cannot import symphony ({file})" in line
    nothing_started(sandbox, "rl")


@pytest.mark.thorough
def test_two_stacks_whose_tmux_sessions_would_have_the_same_name_are_refused(sandbox: Sandbox) -> None:
    """tmux allows no dot in a session name, so `rl.a` would become the name of another stack."""
    for name in ("one", "two"):
        (sandbox.folder / name).write_text(name)
    program = 'with Experiment({}) as e: e.new_process("p", command=["sleep", "3600"])'
    sandbox.write(program.format("secrets=['one'], configs=['one']"))
    sandbox.symphony("up", "rl.a", "-y")
    files = [sandbox.home / "experiments" / "rl-a" / kind for kind in ("secrets", "configs")]
    before = sandbox.trees()
    sandbox.write(program.format("secrets=['two']"))
    for words in (["plan", "rl-a"], ["up", "rl-a", "-y"]):
        output = sandbox.symphony(*words, code=2).err
        assert "the tmux session rl-a belongs to sandbox/rl.a" in output
        assert [[each.name for each in folder.iterdir()] for folder in files] == [["one"], ["one"]]
    assert sandbox.trees() == before
    assert sandbox.stacks() == {"sandbox/rl.a"}


@pytest.mark.thorough
def test_up_and_delete_finish_when_their_output_is_closed(sandbox: Sandbox) -> None:
    sandbox.write(TWO)
    for words in (["up", "rl", "-y"], ["delete", "rl", "-y"]):
        ours, theirs = os.pipe()
        os.close(ours)
        process = sandbox.start([str(SYMPHONY), *words], stdout=theirs)
        os.close(theirs)
        assert process.communicate(timeout=60)[1] == ""
        assert process.returncode == 0, words
        if words[0] == "up":
            assert "rl/server" in sandbox.trees()
    assert sandbox.trees() == {}
    assert sandbox.symphony("ls", "--json").json == []


@pytest.mark.parametrize(
    "name",
    [
        *("-x", "a/b/c/d", "rl\x1b[31m"),
        *(pytest.param(each, marks=pytest.mark.thorough) for each in ("no spaces", "", "other/rl")),
    ],
)
def test_invalid_stack_names_are_refused(sandbox: Sandbox, name: str) -> None:
    sandbox.write(TWO)
    ran = sandbox.symphony("up", "-y", "--", name, code=None)
    assert ran.code == 2, str(ran)
    assert len(ran.err.splitlines()) == 1
    assert has_no_control(ran.err)
    assert sandbox.trees() == {}


def test_up_without_a_terminal_prints_plan_processes_and_summary(sandbox: Sandbox) -> None:
    """First a new experiment, then no change, then a removed process."""
    sandbox.write(TWO)
    refused = sandbox.symphony("up", "rl", code=2)
    assert "2 to start" in refused.out
    assert "Add -y to proceed" in refused.err
    assert (sandbox.trees(), sandbox.servers(), sandbox.symphony("ls", "--json").json) == ({}, [], [])

    first = sandbox.symphony("up", "rl", "-y")
    # A setting that restarts nothing is not shown as a restart.
    sandbox.config("rl", grace="7")
    unchanged = sandbox.symphony("up", "rl", env={"TERM": "dumb"})
    for ran in (first, unchanged):
        assert has_no_control(ran.out)
        assert "rl is up" in ran.out
    assert "Nothing changes: 2 processes unchanged." in unchanged.out, "there is nothing to ask"
    assert "restarted" not in unchanged.out
    sandbox.write(TWO.replace('"guest"', '"visitor"'))
    changed = [" ".join(line.split()) for line in sandbox.symphony("up", "rl", "-y").out.splitlines()]
    assert any(line.startswith("+ visitor start new") for line in changed)
    assert any(line.startswith("- guest stop") for line in changed)
    assert any(line.startswith("visitor started") for line in changed)
    assert any(line.startswith("guest stopped") for line in changed)
    assert not any(line.startswith("server ") and "started" in line for line in changed)
    assert set(sandbox.trees()) == {"rl/server", "rl/visitor"}


def test_up_on_a_terminal_asks_and_shows_progress(sandbox: Sandbox) -> None:
    sandbox.write(TWO)
    with terminal(sandbox, [str(SYMPHONY), "up", "rl"]) as screen:
        shown = screen.shows("[y/N]")
        assert "server" in shown
        assert "greetings:" in shown
        screen.type("Enter")
        assert screen.ends() == 1
        assert "Nothing was changed" in screen.screen()
    nothing_running = sandbox.trees()
    assert nothing_running == {}
    with terminal(sandbox, [str(SYMPHONY), "up", "rl"]) as screen:
        screen.shows("[y/N]")
        screen.type("y", "Enter")
        assert screen.ends() == 0
        rows = [line.split() for line in screen.history().splitlines()]
        assert [row[1] for row in rows if row[:1] == ["guest"]] == ["started"]
        # The process does not listen.
        assert [row[1] for row in rows if row[:1] == ["server"]] == ["started", "running:"]
        assert "rl is up" in screen.screen()
        assert "\x1b[" in screen.colours()


SLOW = """
import time
with Experiment() as e:
    for i in range(100):
        e.new_process(f"p-{i}", command=["sleep", "3600"])
"""


def start_up(sandbox: Sandbox, stack: str, alive: int) -> subprocess.Popen[str]:
    process = sandbox.start([str(SYMPHONY), "up", stack, "-y"], start_new_session=True)
    wait_for(lambda: len(sandbox.trees()) >= alive, 30, f"{alive} processes live", pause=0.01)
    return process


@pytest.mark.thorough
def test_up_interrupted_midway_can_be_completed(sandbox: Sandbox) -> None:
    """After Ctrl-C the processes started so far keep running; the next `up` starts the rest."""
    sandbox.write(SLOW)
    process = start_up(sandbox, "rl", 20)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert "Traceback" not in out + err
    assert "interrupted" in err
    assert "left" in err
    assert "symphony up rl" in err
    assert sandbox.engines() == []
    living = set(sandbox.trees())
    assert len(living) >= 20
    (row,) = sandbox.symphony("ls", "--json").json
    assert (row["total"], "lost" in row["state"]) == (100, True)
    assert "symphony up rl" in sandbox.symphony("wait", "rl", "--for", "ready", code=1).out
    again = sandbox.symphony("up", "rl", "-y")
    assert "100 of 100" in again.out
    assert len(sandbox.trees()) == 100
    sandbox.symphony("delete", "rl", "-y")
    assert sandbox.trees() == {}


@pytest.mark.thorough
def test_of_four_concurrent_ups_one_runs_and_the_others_name_it(sandbox: Sandbox) -> None:
    """The stack is new; no process is started twice."""
    sandbox.write(f"import time; time.sleep(2)\n{TWO}")
    all_ = [sandbox.start([str(SYMPHONY), "up", "rl", "-y"]) for _ in range(4)]
    ended = [(each, *each.communicate(timeout=60)) for each in all_]
    won = [each for each, _, _ in ended if each.returncode == 0]
    assert len(won) <= 1
    for process, out, err in ended:
        if process not in won:
            assert process.returncode == 1, out + err
            assert "rl is being changed by" in err
            assert re.search(r"pid \d+", err), err
            assert len(err.splitlines()) == 1, err
    # Commands that see each other's locks may all give up; then none has started anything.
    before = sandbox.trees()
    assert set(before) == ({"rl/server", "rl/guest"} if won else set())
    sandbox.symphony("up", "rl", "-y")
    if won:
        assert sandbox.trees() == before, "what the winner started goes on"
    assert {each["state"] for each in sandbox.processes("rl").values()} == {"running"}
    living = TmuxBackend(sandbox).identities("rl")
    assert {path: len(tops) for path, tops in living.items()} == {"server": 1, "guest": 1}


@pytest.mark.thorough
def test_up_works_with_locale_c_and_a_long_tmpdir(sandbox: Sandbox) -> None:
    """As under cron; TMPDIR is too long for a socket path."""
    (sandbox.folder / "dönß").mkdir()
    sandbox.write('with Experiment() as e: e.new_process("a", cmds=["pwd", "sleep 3600"], start_dir="dönß")')
    place = sandbox.folder / ("x" * 90)
    place.mkdir()
    cron: dict[str, str | None] = {"LC_ALL": "C", "LANG": None, "TMPDIR": str(place)}
    sandbox.symphony("up", "lab.test", "-y", env=cron)
    wait_for(lambda: "dönß" in sandbox.symphony("logs", "lab.test").out, 10, "it runs there")
    assert "Nothing changes" in sandbox.symphony("up", "-y", env=cron).out
    sandbox.symphony("delete", "-y", env=cron)
    assert ([*place.iterdir()], sandbox.trees()) == ([], {})


@pytest.mark.thorough
def test_a_killed_up_leaves_no_folder_in_tmpdir(sandbox: Sandbox, tmp_path: Path) -> None:
    there, place = tmp_path / "there", tmp_path / "tmp"
    place.mkdir()
    sandbox.write(f"import pathlib, time\npathlib.Path({str(there)!r}).touch()\ntime.sleep(600)")
    killed = sandbox.start([str(sandbox.program), "up", "rl", "-y"], env={"TMPDIR": str(place)})
    wait_for(there.exists, 60, "the program runs")
    killed.kill()
    killed.communicate(timeout=30)
    assert [*place.iterdir()] == []


def test_an_up_that_removes_an_order_starts_the_process_that_waits(sandbox: Sandbox) -> None:
    """It waited for ever, also for a process that was gone."""
    members = """
    prepare = experiment.new_process("prepare", command="sleep", args=[1000])
    train = experiment.new_process("train", command="sleep", args=[1001])
    last = experiment.new_process("last", command="sleep", args=[1002])
    """
    sandbox.write(f"""
with Experiment() as experiment:{members}
    train.depends_on(prepare, condition="completed")
    last.depends_on(train)
""")
    sandbox.symphony("up", "rl", "-y")
    assert sandbox.processes("rl")["train"]["state"] == "waiting"
    sandbox.write(f"with Experiment() as experiment:{members}last.depends_on(train)\n")
    sandbox.symphony("up", "rl", "-y")
    wait_for(lambda: sandbox.processes("rl")["last"]["state"] == "running", 15, "the dependent runs")
    sandbox.write(f"""
with Experiment() as experiment:{members}
    last.depends_on(prepare, condition="completed")
""")
    sandbox.symphony("delete", "rl", "-y")
    sandbox.symphony("up", "rl", "-y")
    assert sandbox.processes("rl")["last"]["state"] == "waiting"
    sandbox.write(f"with Experiment() as experiment:{members}")
    sandbox.symphony("up", "rl", "-y")
    wait_for(lambda: sandbox.processes("rl")["last"]["state"] == "running", 15, "without any order")
    sandbox.symphony("delete", "rl", "-y")
