"""Plain scripts: uncaught errors, caught errors, launches from threads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox import Sandbox, sandbox_in

MISTAKES = """
from symphony import Cluster

cluster = Cluster.new("tmux")
experiment = cluster.new_experiment("rl")
experiment.new_process("agent", command=["sleep", "1"]).connects("replay-sever")
experiment.new_process("learner", command=["sleep", "1"]).binds("replay-server")
cluster.launch(experiment)
"""
AT_ONCE = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from symphony import Cluster

before = dict(os.environ), sys.excepthook

def launch(name):
    cluster = Cluster.new("tmux")
    experiment = cluster.new_experiment(name)
    for number in range(3):
        experiment.new_process(f"{name}-{number}", command=["sleep", "3600"])
    assert (dict(os.environ), sys.excepthook) == before
    return cluster.launch(experiment)

with ThreadPoolExecutor() as pool:
    for ended in pool.map(launch, ["one", "two"]):
        print(ended)
assert (dict(os.environ), sys.excepthook) == before
"""


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    with sandbox_in(tmp_path) as made:
        (made.folder / "Pulumi.yaml").unlink()
        yield made


@pytest.mark.thorough
def test_an_uncaught_error_shows_an_ordinary_traceback_and_the_problems(sandbox: Sandbox) -> None:
    (sandbox.folder / "sweep.py").write_text(MISTAKES)
    command = [sys.executable, "sweep.py"]
    options = {"cwd": sandbox.folder, "env": sandbox.environment, "capture_output": True, "timeout": 60}
    ran = subprocess.run(command, text=True, check=False, **options)
    assert ran.returncode == 1
    assert 'sweep.py", line 8' in ran.stderr
    assert "PlanError: rl cannot run" in ran.stderr
    assert 'did you mean "replay-server"?' in ran.stderr
    assert "line 6" in ran.stderr
    assert sandbox.trees() == {}


@pytest.mark.thorough
def test_str_of_a_caught_error_contains_the_problems(sandbox: Sandbox) -> None:
    launch = "from symphony import UserError\ntry: cluster.launch(experiment)\n"
    launch += "except UserError as error: print(str(error))"
    output = sandbox.python(MISTAKES.replace("cluster.launch(experiment)", launch)).out
    assert "1 problem" in output
    assert "no process binds" in output


@pytest.mark.thorough
def test_scripts_launch_two_experiments_at_once(sandbox: Sandbox) -> None:
    output = sandbox.python(AT_ONCE).out.splitlines()
    assert [line.partition(",")[0] for line in output] == [
        "one is up: 3 of 3 running",
        "two is up: 3 of 3 running",
    ]
    assert set(sandbox.trees()) == {
        f"{name}/{name}-{number}" for name in ("one", "two") for number in range(3)
    }
    restart = sandbox.symphony("restart", "one", "one-0", code=2).err
    assert "one was launched by a script" in restart


def test_an_option_that_a_script_no_longer_passes_is_dropped(sandbox: Sandbox) -> None:
    """An experiment that was once exposed to the internet must not stay so."""
    launch = (
        "from symphony import Cluster\n"
        "cluster = Cluster.new('tmux'%s)\n"
        "experiment = cluster.new_experiment('rl')\n"
        "experiment.new_process('a', command=['sleep', '3600'])\n"
        "cluster.launch(experiment)"
    )
    sandbox.python(launch % ", server_name='mine'")
    sandbox.symphony("delete", "rl", "-y")
    sandbox.python(launch % "")
    assert [session.name for session in sandbox.tmux().sessions] == ["rl"]


def test_a_project_leaves_the_experiment_of_a_script_alone(sandbox: Sandbox) -> None:
    sandbox.write('with Experiment() as e:\n    e.new_process("a", command=["sleep", "3600"])')
    (sandbox.folder / "Pulumi.yaml").write_text("name: lab\nruntime: python\n")
    sandbox.python(
        "from symphony import Cluster\n"
        "cluster = Cluster.new('tmux')\n"
        "experiment = cluster.new_experiment('sw')\n"
        "experiment.new_process('p0', command=['sleep', '3600'])\n"
        "cluster.launch(experiment)"
    )
    sandbox.symphony("up", "-y")
    assert set(sandbox.trees()) == {"sw/p0", "lab/a"}
    assert "no stack matches" in sandbox.symphony("up", "s*", "-y", code=2).err
    assert "sw was launched by a script" in sandbox.symphony("restart", "sw", "-y", code=2).err
