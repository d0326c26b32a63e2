"""`symphony up`: problems before anything starts, questions, progress, interruption, two at once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from tests.cli.support import has_no_control
from tests.conformance.tmux_backend import TmuxBackend
from tests.desk import SYMPHONY, Desk, wait_for
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


def nothing_started(desk: Desk, stack: str) -> None:
    assert desk.trees() == {}
    assert desk.servers() == []
    assert not any(each.endswith(f"/{stack}") for each in desk.stacks())


def test_problems_come_at_once_each_with_line_and_remedy(desk: Desk) -> None:
    desk.write(PROBLEMS)
    for words in (("up", "rl", "-y"), ("plan", "rl", "--json")):
        ran = desk.symphony(*words, code=2)
        text = ran.err + ran.out
        assert "replay-sever" in text
        assert "replay-server" in text
        assert "learner" in text
        assert "No Name" in text
        assert "Nothing was started" in text
        rows = [row for row in text.splitlines() if row.startswith("  ")]
        # One line a problem, each with the lines of the program it is about: the declaration, the call.
        for what, lines in (
            ("nobody binds", "line 5"),
            ("both bind", "lines 6, 7"),
            ("No Name", "line 8"),
            ("no-such-command-anywhere", "line 8"),
        ):
            assert any(what in row and f"   {lines}   " in row for row in rows), f"{what}: {text}"
        nothing_started(desk, "rl")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("1 / 0", "the program failed: ZeroDivisionError: division by zero (__main__.py:2)."),
        ("def f(:", "the program failed: SyntaxError: invalid syntax (__main__.py:2)."),
        ("import sys; sys.exit(4)", "ended with exit code 4"),
        ("pass", "launches no experiment"),
        ("e = Experiment()", "is declared but never launched (__main__.py:2)"),
        (
            'with Experiment() as e: e.new_process("a\\x1b[31m", command=["true"])',
            '"a\\x1b[31m" has an illegal name',
        ),
        ("with Experiment() as e: pass", '"rl" has no process'),
    ],
    ids=["error", "syntax", "exit", "nothing", "unlaunched", "control", "empty"],
)
def test_a_program_that_cannot_run(desk: Desk, program: str, message: str) -> None:
    desk.write(program)
    ran = desk.symphony("up", "rl", "-y", code=2)
    assert message in ran.err
    assert has_no_control(ran.err)
    assert "site-packages" not in ran.err
    nothing_started(desk, "rl")


@pytest.mark.thorough
def test_a_program_that_launches_nothing_stops_nothing(desk: Desk) -> None:
    desk.write(TWO)
    desk.symphony("up", "rl", "-y")
    living = desk.trees()
    assert set(living) == {"rl/server", "rl/guest"}
    for program in ("pass", "1 / 0", "e = Experiment()"):
        desk.write(program)
        assert len(desk.symphony("up", "rl", "-y", code=2).err.splitlines()) <= 5, program
        assert desk.trees() == living, program
    # Nor does one in which no line of symphony is left.
    (desk.folder / "__main__.py").write_text("print('nothing')\n")
    assert "launches no experiment" in desk.symphony("up", "rl", "-y", code=2).err
    assert desk.trees() == living


@pytest.mark.parametrize("missing", ["pulumi", "symphony"])
def test_a_virtualenv_that_is_not_set_up(desk: Desk, missing: str) -> None:
    desk.write(TWO)
    own = desk.folder / "own"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", own], check=True, timeout=60)
    if missing == "symphony":
        (packages,) = own.glob("lib/python3*/site-packages")
        for each in Path(sysconfig.get_path("purelib")).iterdir():
            if "symphony" not in each.name:
                (packages / each.name).symlink_to(each)
    file = desk.folder / "Pulumi.yaml"
    file.write_text("name: symphony\nruntime:\n  name: python\n  options:\n    virtualenv: own\n")
    assert desk.symphony("up", "rl", "-y", code=2).err == (
        f"symphony: the Python that runs the program of rl has no {missing} ({file}). "
        "Install symphony in the virtualenv named there, or take that line out to use symphony's own.\n"
    )
    nothing_started(desk, "rl")


@pytest.mark.thorough
def test_another_experiments_session_and_its_files_are_left_alone(desk: Desk) -> None:
    """tmux takes no dot in a name, so both would be called the same; the plan says so already."""
    for name in ("one", "two"):
        (desk.folder / name).write_text(name)
    program = 'with Experiment({}) as e: e.new_process("p", command=["sleep", "3600"])'
    desk.write(program.format("secrets=['one'], configs=['one']"))
    desk.symphony("up", "rl.a", "-y")
    files = [desk.home / "experiments" / "rl-a" / kind for kind in ("secrets", "configs")]
    before = desk.trees()
    desk.write(program.format("secrets=['two']"))
    for words in (["plan", "rl-a"], ["up", "rl-a", "-y"]):
        said = desk.symphony(*words, code=2).err
        assert "rl-a is up already, as desk/rl.a" in said
        assert [[each.name for each in folder.iterdir()] for folder in files] == [["one"], ["one"]]
    assert desk.trees() == before
    assert desk.stacks() == {"desk/rl.a"}


@pytest.mark.thorough
def test_work_goes_on_when_nobody_reads_and_where_letters_are_missing(desk: Desk) -> None:
    desk.write(
        TWO.replace(
            '"guest", command=["sleep", "3600"]',
            '"guest", command=["sh", "-c", "sleep 2; echo \u2192; exit 3"]',
        )
    )
    for words in (["up", "rl", "-y"], ["delete", "rl", "-y"]):
        ours, theirs = os.pipe()
        os.close(ours)
        process = desk.start([str(SYMPHONY), *words], stdout=theirs)
        os.close(theirs)
        assert process.communicate(timeout=60)[1] == ""
        assert process.returncode == 0, words
        if words[0] == "up":
            assert "rl/server" in desk.trees()
            wait_for(lambda: "exit 3" in desk.symphony("process", "rl").out, 20, "the guest's end")
            said = desk.symphony("logs", "rl", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
            assert "guest  | ?" in said.out
    assert desk.trees() == {}
    assert desk.symphony("ls", "--json").json == []


def test_outside_a_project(desk: Desk, tmp_path: object) -> None:
    ran = desk.symphony("up", "rl", "-y", code=2, cwd="/")
    assert "Pulumi.yaml" in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("name", ["no spaces", "-x", "a/b/c/d", "", "rl\x1b[31m", "x" * 101, "other/rl"])
def test_names_that_are_none(desk: Desk, name: str) -> None:
    desk.write(TWO)
    ran = desk.symphony("up", "-y", "--", name, code=None)
    assert ran.code == 2, str(ran)
    assert len(ran.err.splitlines()) == 1
    assert has_no_control(ran.err)
    assert desk.trees() == {}


@pytest.mark.thorough
def test_without_a_terminal_to_ask_on_mistakes_and_the_plan_come_first(desk: Desk) -> None:
    desk.write(PROBLEMS)
    assert "nobody binds" in desk.symphony("up", "rl", code=2).err
    desk.write(TWO)
    ran = desk.symphony("up", "rl", code=2)
    assert "2 start" in ran.out
    assert ran.err == "symphony: there is no terminal to ask on. Say -y to go on without asking.\n"
    assert desk.trees() == {}
    desk.symphony("up", "rl", "-y")
    living = desk.trees()
    assert "Nothing changes" in desk.symphony("up", "rl").out, "there is nothing to ask"
    assert desk.trees() == living


def test_plain_lines(desk: Desk) -> None:
    """Asked for nothing, with no terminal: plan, a line each, the end; then nothing to do, then a stop."""
    desk.write(TWO)
    assert "-y" in desk.symphony("up", "rl", code=2).err
    assert (desk.trees(), desk.servers(), desk.symphony("ls", "--json").json) == ({}, [], [])
    dry = desk.symphony("up", "rl", "--dry-run")
    assert "2 start" in dry.out
    assert desk.trees() == {}

    for term in (None, "dumb"):
        first = desk.symphony("up", "rl", "-y", env={"TERM": term})
        assert has_no_control(first.out)
        assert "rl is up" in first.out
    lines = [" ".join(line.split()) for line in first.out.splitlines()]
    assert any("Nothing changes" in line for line in lines)
    desk.write(TWO.replace('"guest"', '"visitor"'))
    changed = [" ".join(line.split()) for line in desk.symphony("up", "rl", "-y").out.splitlines()]
    assert any(line.startswith("+ visitor start new") for line in changed)
    assert any(line.startswith("- guest stop") for line in changed)
    assert any(line.startswith("visitor started") for line in changed)
    assert any(line.startswith("guest stopped") for line in changed)
    assert not any(line.startswith("server ") and "started" in line for line in changed)
    assert set(desk.trees()) == {"rl/server", "rl/visitor"}


def test_a_person_is_asked_and_sees_it_happen(desk: Desk) -> None:
    desk.write(TWO)
    with terminal(desk, [str(SYMPHONY), "up", "rl"]) as screen:
        shown = screen.shows("[y/N]")
        assert "server" in shown
        assert "greetings:" in shown
        screen.type("Enter")
        assert screen.ends() == 1
        assert "Nothing was changed" in screen.screen()
    nothing_running = desk.trees()
    assert nothing_running == {}
    with terminal(desk, [str(SYMPHONY), "up", "rl"]) as screen:
        screen.shows("[y/N]")
        screen.type("y", "Enter")
        assert screen.ends() == 0
        rows = [line.split() for line in screen.history().splitlines()]
        assert [row[1] for row in rows if row[:1] == ["guest"]] == ["started"]
        assert [row[1] for row in rows if row[:1] == ["server"]] == ["started"]
        assert "rl is up" in screen.screen()
        assert "\x1b[" in screen.colours()


@pytest.mark.thorough
def test_a_narrow_terminal_cuts_no_name(desk: Desk) -> None:
    name = "a-rather-long-name-of-a-process"
    desk.write(f'with Experiment() as e: e.new_process("{name}", command=["sleep", "3600"]).binds("service")')
    with terminal(desk, [str(SYMPHONY), "up", "rl", "-y"], columns=44) as screen:
        assert screen.ends() == 0
        assert name in screen.history().replace("\n", "")


SLOW = """
import time
with Experiment() as e:
    for i in range(100):
        e.new_process(f"p-{i}", command=["sleep", "3600"])
"""


def begun(desk: Desk, stack: str, alive: int) -> subprocess.Popen[str]:
    process = desk.start([str(SYMPHONY), "up", stack, "-y"], start_new_session=True)
    wait_for(lambda: len(desk.trees()) >= alive, 30, f"{alive} processes live", pause=0.01)
    return process


def test_interrupted_in_the_middle(desk: Desk) -> None:
    """Ctrl-C, as on a terminal: soon over, said what is left, and finished by the next."""
    desk.write(SLOW)
    process = begun(desk, "rl", 20)
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert time.monotonic() - began < 5.0
    assert process.returncode == 130, out + err
    assert "Traceback" not in out + err
    assert "interrupted" in err
    assert "left" in err
    assert "symphony up rl" in err
    assert desk.engines() == []
    living = set(desk.trees())
    assert len(living) >= 20
    again = desk.symphony("up", "rl", "-y")
    assert "100 of 100" in again.out
    assert len(desk.trees()) == 100
    desk.symphony("delete", "rl", "-y")
    assert desk.trees() == {}


def test_two_at_once(desk: Desk) -> None:
    desk.write(f"import time; time.sleep(2)\n{TWO}")
    first = desk.start([str(SYMPHONY), "up", "rl", "-y"])
    locks = desk.home / "state" / ".pulumi" / "locks"
    wait_for(lambda: list(locks.rglob("*.json")), 20, "the first holds the lock")
    second = desk.symphony("up", "rl", "-y", code=1)
    assert "rl is being changed by" in second.err
    assert "pid" in second.err
    assert len(second.err.splitlines()) == 1
    listed = desk.symphony("ls")
    out, err = first.communicate(timeout=30)
    assert first.returncode == 0, out + err + listed.out
    assert set(desk.trees()) == {"rl/server", "rl/guest"}


@pytest.mark.thorough
def test_four_at_once(desk: Desk) -> None:
    """In a stack that is not there yet: at most one does it, the others name who; nothing is doubled."""
    desk.write(f"import time; time.sleep(2)\n{TWO}")
    all_ = [desk.start([str(SYMPHONY), "up", "rl", "-y"]) for _ in range(4)]
    ended = [(each, *each.communicate(timeout=60)) for each in all_]
    won = [each for each, _, _ in ended if each.returncode == 0]
    assert len(won) <= 1
    for process, out, err in ended:
        if process not in won:
            assert process.returncode == 1, out + err
            assert "rl is being changed by" in err
            assert re.search(r"pid \d+", err), err
            assert len(err.splitlines()) == 1, err
    # Those who see each other's locks all step back: then nobody has started anything.
    before = desk.trees()
    assert set(before) == ({"rl/server", "rl/guest"} if won else set())
    desk.symphony("up", "rl", "-y")
    if won:
        assert desk.trees() == before, "what the winner started goes on"
    assert {each["state"] for each in desk.processes("rl").values()} == {"running"}
    living = TmuxBackend(desk).identities("rl")
    assert {path: len(tops) for path, tops in living.items()} == {"server": 1, "guest": 1}


@pytest.mark.thorough
@pytest.mark.parametrize("file", ["__main__.py", "stacks/rl.py"])
def test_ls_and_delete_while_it_comes_up(desk: Desk, file: str) -> None:
    """The list never fails and shows it; a deletion is refused, naming who is at work, and harms nothing."""
    (desk.folder / "stacks").mkdir()
    (desk.folder / "__main__.py").write_text("from symphony import run_program\nrun_program('stacks')\n")
    desk.write(SLOW, file)
    process = begun(desk, "rl", 1)
    refused = desk.symphony("delete", "rl", "-y", code=1)
    assert "rl is being changed by" in refused.err
    assert len(refused.err.splitlines()) == 1
    looks = 0
    while process.poll() is None:
        (row,) = desk.symphony("ls", "--json").json
        assert row["name"] == "rl"
        assert row["state"] != "in no state"
        looks += 1
    out, err = process.communicate(timeout=30)
    assert looks > 0
    assert process.returncode == 0, out + err
    assert "100 of 100" in out
    assert len(desk.trees()) == 100
    assert desk.symphony("ls", "--json").json[0]["state"] == "running"


def test_a_process_that_fails_at_once_is_said(desk: Desk) -> None:
    desk.write(
        "with Experiment() as e:\n"
        '    e.new_process("bad", command=["sh", "-c", "echo no module called gym; exit 9"])'
    )
    desk.symphony("up", "rl", "-y", code=None)
    wait_for(lambda: desk.processes("rl")["bad"]["state"] == "failed", 10, "bad has failed")
    shown = desk.symphony("process", "rl").out
    assert "exit 9" in shown
    assert "no module called gym" in shown


def test_a_wide_plan_fits_on_a_terminal(desk: Desk) -> None:
    """On a screen too narrow for all of it, names stay whole and what they serve goes on below."""
    services = [f"service-number-{i}" for i in range(6)]
    desk.write(
        "with Experiment() as e:\n"
        f'    e.new_process("learner", command=["sleep", "1"]).binds(*{services})\n'
        f'    e.new_process("agent", command=["sleep", "1"]).connects(*{services})'
    )
    with terminal(desk, [str(SYMPHONY), "plan", "rl"], columns=70) as screen:
        assert screen.ends() == 0
        lines = [line for line in screen.history().splitlines() if line.strip()]
    words = [word for line in lines for word in line.split()]
    assert (words.count("learner"), words.count("agent")) == (1, 1)
    for service in services:
        assert sum(word == service or word.startswith(f"{service}:") for word in words) == 2
    assert any(line.startswith("2 start") for line in lines)


def test_an_up_leaves_no_log_of_its_resources(desk: Desk) -> None:
    desk.write('with Experiment() as e: e.new_process("a", command=["sleep", "60"])')
    desk.symphony("up", "rl", "-y")
    home = Path(desk.environment["PULUMI_HOME"])
    assert not list((home / "logs").glob("*rl-*"))
    assert (home / "workspaces").is_dir()
