"""A plain script that catches nothing: an error of ours is its own lines, all else is Python's."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.desk import Desk

MISTAKES = """
from symphony import Cluster

cluster = Cluster.new("tmux")
experiment = cluster.new_experiment("rl")
experiment.new_process("agent", command=["sleep", "1"]).connects("replay-sever")
experiment.new_process("learner", command=["sleep", "1"]).binds("replay-server")
experiment.new_process("No Name", command=["sleep", "1"])
cluster.launch(experiment)
"""


def test_every_mistake_is_said_with_its_line_and_remedy(desk: Desk) -> None:
    (desk.folder / "sweep.py").write_text(MISTAKES)
    ran = desk.run([sys.executable, "sweep.py"], code=2)
    head, *problems, end = ran.err.splitlines()
    assert head == "symphony: rl cannot run: 2 problems in sweep.py"
    assert len(problems) == 2
    assert "nobody binds" in ran.err
    assert "line 6" in ran.err
    assert 'did you mean "replay-server"?' in ran.err
    assert "line 8" in ran.err
    assert end == "Nothing was started."
    assert desk.trees() == {}


def test_caught_as_text_it_holds_the_problems_too(desk: Desk) -> None:
    said = desk.python(
        MISTAKES.replace(
            "cluster.launch(experiment)",
            "from symphony import UserError\ntry: cluster.launch(experiment)\n"
            "except UserError as error: print(str(error))",
        )
    ).out
    assert "2 problems" in said
    assert "nobody binds" in said


def test_an_error_without_problems_is_one_line(desk: Desk) -> None:
    ran = desk.python("from symphony import Cluster\nCluster.new('tmux').delete('no-such')", code=2)
    assert ran.err.startswith("symphony: there is no experiment")
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        ("sys.excepthook = lambda *_: print('mine', _[1])\nCluster.new()\n1 / 0", 1, "mine division by zero"),
        ("Cluster.new()\nsys.exit(7)", 7, ""),
        ("Cluster.new()\nCluster.new()\n1 / 0", 1, "ZeroDivisionError"),
    ],
)
def test_all_else_is_as_it_was(program: str, code: int, said: str) -> None:
    words = [sys.executable, "-c", f"import sys\nfrom symphony import Cluster\n{program}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code
    assert said in done.stdout + done.stderr


def test_at_a_prompt_the_session_goes_on() -> None:
    lines = "from symphony import Cluster\nCluster.new('no-such')\nprint('still', 'here')\n"
    done = subprocess.run(
        [sys.executable, "-i"], input=lines, capture_output=True, text=True, timeout=60, check=False
    )
    assert "still here" in done.stdout
    assert "there is no backend" in done.stderr
