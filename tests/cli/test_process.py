"""`symphony process`: rows, JSON, names of experiments, code digests."""

from __future__ import annotations

import pytest

from tests.cli.support import has_no_control, run_into_closed_pipe, run_into_full_disk
from tests.sandbox import Sandbox, wait_for


def test_process_rows(lab: Sandbox) -> None:
    out = lab.symphony("process", "rl").out
    head, *rows = [line.split() for line in out.splitlines()]
    assert head == ["group", "name", "ready", "restarts", "state"]
    names = [row[0] for row in rows[:4]]
    assert names == ["agent-0", "agent-1", "learner", "wild"]
    assert rows[4][:4] == ["eval", "agent-0", "1", "0"]
    assert rows[0][1:4] == ["1", "0", "running:"]
    assert "exit 3" in out
    assert has_no_control(out)
    assert "red" in out
    assert "\u202e" not in out
    assert "learner" in lab.symphony("process").out, "the only experiment needs no name"


def test_process_json(lab: Sandbox) -> None:
    rows = lab.symphony("process", "rl", "--json").json
    assert {row["path"] for row in rows} == {"agent-0", "agent-1", "learner", "wild", "eval/agent-0"}
    (grouped,) = [row for row in rows if row["group"]]
    assert (grouped["group"], grouped["name"], grouped["ready"], grouped["restarts"]) == (
        "eval",
        "agent-0",
        True,
        0,
    )


@pytest.mark.parametrize("name", ["r", "organization/lab/rl"])
def test_a_unique_part_of_the_name_selects_the_experiment(lab: Sandbox, name: str) -> None:
    assert "learner" in lab.symphony("process", name).out


@pytest.mark.parametrize("name", ["", "rl\x1b[31m"])
def test_an_unknown_name_is_a_one_line_error(lab: Sandbox, name: str) -> None:
    ran = lab.symphony("process", "--", name, code=None)
    if ran.code == 0:
        pytest.fail(str(ran))
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 1
    assert has_no_control(ran.err)
    assert ran.out == ""


@pytest.mark.parametrize(
    "words",
    [("process", "rl", "--json"), ("logs", "rl"), pytest.param(("ls",), marks=pytest.mark.thorough)],
)
def test_closed_pipe_ends_quietly_and_full_disk_is_a_one_line_error(
    lab: Sandbox, words: tuple[str, ...]
) -> None:
    code, err = run_into_closed_pipe(lab, words)
    assert (code, err) == (0, "")
    code, err = run_into_full_disk(lab, words)
    assert code == 1
    assert "No space left" in err
    assert len(err.splitlines()) == 1


@pytest.mark.thorough
def test_reading_and_deleting_work_beside_a_broken_pulumi_yaml(sandbox: Sandbox) -> None:
    """Only commands that run a program fail there."""
    sandbox.write(
        'with Experiment() as e: e.new_process("a", command=["sh", "-c", "echo hello; sleep 3600"])'
    )
    sandbox.symphony("up", "rl", "-y")
    elsewhere = sandbox.home.parent / "elsewhere" / "below"
    elsewhere.mkdir(parents=True)
    file = elsewhere.parent / "Pulumi.yaml"
    for broken in ("name: web\nruntime: nodejs\n", "name: [\n"):
        file.write_text(broken)
        assert "running" in sandbox.symphony("process", cwd=elsewhere).out
        refused = sandbox.symphony("up", "rl", "-y", cwd=elsewhere, code=2)
        assert "Pulumi.yaml" in refused.err
        assert len(refused.err.splitlines()) == 1
    assert "running" in sandbox.symphony("process", "rl", cwd=elsewhere).out
    wait_for(lambda: "hello" in sandbox.symphony("logs", "rl", cwd=elsewhere).out, 10, "it says hello")
    assert sandbox.symphony("why", "rl", "a", cwd=elsewhere).code == 0
    assert "PULUMI" in sandbox.symphony("env", cwd=elsewhere).out
    sandbox.symphony("delete", "rl", "-y", cwd=elsewhere)
    assert sandbox.trees() == {}


@pytest.mark.thorough
def test_the_shown_digest_is_of_the_code_that_runs(sandbox: Sandbox) -> None:
    """The file is edited between plan and start."""
    train = sandbox.folder / "train.sh"
    train.write_text("echo first")
    sandbox.write(
        "from pathlib import Path\n"
        'with Experiment(code=["train.sh"]) as e:\n'
        '    e.new_process("a", cmds=["sh train.sh", "echo $SYMPHONY_CODE", "sleep 3600"])\n'
        '    e.new_process("b", command=["sleep", "3600"])\n'
        'Path("train.sh").write_text("echo second")'
    )
    refused = sandbox.symphony("up", "rl", "-y", code=1).err
    assert all(word in refused for word in ("a", "train.sh", "changed since the plan", "`symphony up`"))
    sandbox.symphony("up", "rl", "-y")
    rows = sandbox.processes("rl")
    wait_for(lambda: "second" in sandbox.symphony("logs", "rl", "a").out, 10, "it runs")
    assert sandbox.symphony("logs", "rl", "a").out.split() == ["second", rows["a"]["code"]]
    assert rows["a"]["code"] == rows["b"]["code"] != ""
    # A running process keeps its digest when the file changes.
    train.write_text("echo third")
    assert sandbox.processes("rl")["a"]["code"] == rows["a"]["code"]


@pytest.mark.thorough
def test_a_waiting_process_refuses_to_start_with_code_edited_meanwhile(sandbox: Sandbox) -> None:
    train = sandbox.folder / "train.sh"
    train.write_text("echo first")
    sandbox.write(
        "with Experiment() as e:\n"
        '    gate = e.new_process("gate", cmds=["while ! [ -e go ]; do sleep 0.2; done"])\n'
        '    late = e.new_process("late", cmds=["sh train.sh; sleep 3600"], code=["train.sh"])\n'
        '    late.depends_on(gate, condition="completed")'
    )
    sandbox.symphony("up", "rl", "-y")
    train.write_text("echo second")
    (sandbox.folder / "go").touch()
    wait_for(lambda: "changed since the plan" in sandbox.processes("rl")["late"]["why"], 20, "it is told")
    assert "`symphony up rl` restarts it" in sandbox.symphony("why", "rl", "late").out
    assert sandbox.symphony("logs", "rl", "late").out == ""
    sandbox.symphony("up", "rl", "-y")
    wait_for(lambda: "second" in sandbox.symphony("logs", "rl", "late").out, 20, "it runs")


@pytest.mark.thorough
def test_up_says_if_code_changed_while_its_process_started(sandbox: Sandbox) -> None:
    (sandbox.folder / "train.sh").write_text("echo '# edited' >>train.sh; sleep 3600")
    sandbox.write('with Experiment() as e: e.new_process("a", command=["sh", "train.sh"], code=["train.sh"])')
    said = sandbox.symphony("up", "rl", "-y").out
    assert "train.sh changed while a started" in said
    assert "a        restart  code: train.sh" in sandbox.symphony("plan", "rl").out


@pytest.mark.thorough
def test_up_finds_the_code_of_a_program_in_an_inner_folder_unchanged(sandbox: Sandbox) -> None:
    (sandbox.folder / "Pulumi.yaml").write_text("name: sandbox\nruntime: python\nmain: src/\n")
    (sandbox.folder / "src").mkdir()
    (sandbox.folder / "src" / "train.sh").write_text("sleep 3600")
    program = 'with Experiment() as e: e.new_process("a", command=["sh", "train.sh"], code=["train.sh"])'
    sandbox.write(program, "src/__main__.py")
    assert "train.sh changed" not in sandbox.symphony("up", "rl", "-y").out
