"""`symphony ls` lists every experiment of the state, of any project and host, without the engine."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from symphony import paths
from tests.sandbox import Sandbox, sandbox_in, wait_for


def test_without_experiments_ls_says_so(sandbox: Sandbox) -> None:
    assert "No experiments" in sandbox.symphony("ls").out
    assert sandbox.symphony("ls", "--json").json == []
    assert "no experiment" in sandbox.symphony("process", code=2).err


def test_reading_commands_work_in_any_folder_and_without_the_engine(lab: Sandbox, tmp_path: Path) -> None:
    folders = lab.environment["PATH"].split(":")
    path = {"PATH": ":".join(part for part in folders if not (Path(part) / "pulumi").exists())}
    assert "rl" in lab.symphony("ls", env=path, cwd=tmp_path).out
    assert "learner" in lab.symphony("process", "rl", env=path, cwd=tmp_path).out
    assert "step 1" in lab.symphony("logs", "rl", env=path, cwd=tmp_path).out


def test_ls_row_and_json(lab: Sandbox) -> None:
    head, row = lab.symphony("ls").out.splitlines()
    assert head.split()[:5] == ["name", "on", "ready", "state", "age"]
    assert row.split()[:3] == ["rl", "tmux", "4/5"]
    assert "wild" in row
    assert "exit 3" in row
    (facts,) = lab.symphony("lse", "--json").json
    assert (facts["name"], facts["project"], facts["backend"]) == ("rl", "lab", "tmux")
    assert (facts["ready"], facts["total"]) == (4, 5)
    assert abs(time.time() - facts["since"]) < 600


@pytest.mark.thorough
def test_completed_processes_count_as_ready_in_ls(sandbox: Sandbox) -> None:
    sandbox.write('with Experiment() as e:\n    for n in "ab": e.new_process(n, command=["true"])')
    sandbox.symphony("up", "numint", "-y")
    wait_for(
        lambda: {each["state"] for each in sandbox.processes("numint").values()} == {"completed"}, 10, "ended"
    )
    assert sandbox.symphony("ls").out.splitlines()[1].split()[:4] == ["numint", "tmux", "2/2", "completed"]
    # `process` says that it cannot be reached any more.
    assert [each["ready"] for each in sandbox.processes("numint").values()] == [False, False]


@pytest.mark.thorough
def test_an_experiment_on_another_host_is_listed_but_cannot_be_changed(lab: Sandbox) -> None:
    away = {"SYMPHONY_HOST": "elsewhere.example"}
    (row,) = lab.symphony("ls", "--json", env=away).json
    assert row["state"] == f"on {paths.host()}"
    pids = lab.trees()
    for words in (
        ("process", "rl"),
        ("logs", "rl"),
        ("plan", "rl"),
        ("up", "rl", "-y"),
        ("delete", "rl", "-y"),
        ("why", "rl", "learner"),
        ("exec", "rl", "learner", "--", "true"),
        ("ssh", "rl", "learner"),
        ("scp", "rl", "learner:x", "."),
        ("visit", "rl", "replay", "-u"),
    ):
        ran = lab.symphony(*words, env=away, code=2)
        assert paths.host() in ran.err
        assert "elsewhere.example" in ran.err
        assert len(ran.err.splitlines()) == 1
    assert lab.trees() == pids


def test_a_damaged_state_file_does_not_hide_other_experiments(lab: Sandbox) -> None:
    file = lab.home / "state" / ".pulumi" / "stacks" / "lab" / "broken.json"
    file.write_text('{"version": 3, "checkpoint"')
    try:
        listed = {row["name"]: row for row in lab.symphony("ls", "--json").json}
        assert listed["broken"]["state"] == "unreadable"
        assert listed["rl"]["total"] == 5
        assert "damaged" in lab.symphony("process", "broken", code=1).err
        assert "learner" in lab.symphony("process", "rl").out
    finally:
        file.unlink()


@pytest.mark.thorough
def test_experiments_of_the_same_name_in_two_projects(tmp_path: Path) -> None:
    """Both are listed with their project; the bare name selects that of the current project."""
    with sandbox_in(tmp_path / "one", "left") as left:
        right = Sandbox(tmp_path / "two", "right")
        right.home = left.home
        right.environment = {**left.environment}
        for each, namespace in ((left, "l"), (right, "r")):
            each.write(
                f'with Experiment() as e: e.new_process("in-{each.project}", command=["sleep", "3600"])'
            )
            each.config("rl", namespace=namespace)
            each.symphony("up", "rl", "-y")
        names = [row["name"] for row in left.symphony("ls", "--json").json]
        assert names == ["left/rl", "right/rl"]
        assert "in-left" in left.symphony("process", "rl").out
        assert "in-right" in right.symphony("process", "rl").out
        ambiguous = left.symphony("process", "rl", cwd=tmp_path, code=2).err
        assert "left/rl" in ambiguous
        assert "right/rl" in ambiguous
        several = left.symphony("process", code=2, cwd=tmp_path).err
        assert "left/rl, right/rl" in several
        assert "in-right" in left.symphony("process", "right/rl").out
        assert "left/rl, right/rl" in left.symphony("delete-batch", "rl", "-y", cwd=tmp_path, code=2).err
        right.symphony("delete", "rl", "-y")
        assert "in-right" in right.symphony("logs", "rl").out + right.symphony("history", "rl", "--json").out
        assert [row["name"] for row in left.symphony("ls", "--json").json] == ["rl"]
        assert "in-left" in left.symphony("process", "rl", cwd=tmp_path).out
        assert list(left.trees()) == ["rl/in-left"]
