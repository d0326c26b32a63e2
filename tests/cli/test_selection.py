"""Which experiment or process a command selects, by name, alias, pattern and `symphony switch`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox import SYMPHONY, Sandbox, sandbox_in
from tests.terminal import terminal

PROGRAM = 'with Experiment() as e: e.new_process("a", command=["sleep", "3600"])'


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("why rl", "agent-0, agent-1, learner, wild, eval/agent-0"),
        ("why rl agentt", 'Did you mean "agent-1" or "agent-0"?'),
        pytest.param("logs rl -t abc", '--tail "abc"', marks=pytest.mark.thorough),
        ("logs learner rl", "Put the experiment's name first: rl "),
        pytest.param("db /sweep-(/ -dr", "sweep-(", marks=pytest.mark.thorough),
    ],
)
def test_an_ambiguous_or_missing_name_is_a_one_line_error_with_candidates(
    lab: Sandbox, words: str, message: str
) -> None:
    ran = lab.symphony(*words.split(), code=2)
    assert message in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "output"),
    [
        ("l rl learner -t -1", "step 1\nstep 2\nstep 3\n"),
        pytest.param("log rl learner -s 0 -t 1", "step 3\n", marks=pytest.mark.thorough),
        pytest.param("log learn -t 0", "", marks=pytest.mark.thorough),
        ("x rl learner -- sh -c 'echo $SYMPHONY_ROLE'", "learner\n"),
        pytest.param("x learner -- echo hi", "hi\n", marks=pytest.mark.thorough),
        ("se rl -f", "rl\n"),
        pytest.param("switch-experiment --force rl", "rl\n", marks=pytest.mark.thorough),
    ],
)
def test_aliases_and_options_of_the_original(lab: Sandbox, words: str, output: str) -> None:
    assert lab.symphony(*shlex.split(words)).out == output


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        *(("ls r", "rl "), ("lse r*", "rl "), ("lsp rl", "learner"), ("p rl", "learner")),
        *(("d rl -dr", "would stop"), ("db /^r/ --dry-run", "Would delete"), ("up rl -dr", "wild")),
    ],
)
def test_short_names_of_lists_and_dry_runs(lab: Sandbox, words: str, shown: str) -> None:
    before = lab.trees()
    assert shown in lab.symphony(*words.split()).out
    assert lab.trees() == before


@pytest.fixture(scope="module")
def two_projects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sandbox, Path, Path]]:
    """Yield the projects `sandbox` (with `mine`) and `other` (with `theirs`), and a third folder."""
    place = tmp_path_factory.mktemp("two")
    with sandbox_in(place) as sandbox:
        sandbox.write(PROGRAM)
        other, nowhere = place / "elsewhere" / "other", place / "elsewhere" / "nowhere"
        for folder in (other, nowhere):
            folder.mkdir(parents=True)
        (other / "Pulumi.yaml").write_text("name: other\nruntime: python\n")
        (other / "__main__.py").write_text((sandbox.folder / "__main__.py").read_text())
        sandbox.symphony("up", "mine", "-y")
        sandbox.symphony("up", "theirs", "-y", cwd=other)
        yield sandbox, other, nowhere


def test_a_command_selects_the_experiment_of_its_project(two_projects: tuple[Sandbox, Path, Path]) -> None:
    sandbox, other, nowhere = two_projects
    assert sandbox.symphony("switch").out == "mine\n"
    assert sandbox.symphony("switch", cwd=other).out == "theirs\n"
    assert "several experiments exist" in sandbox.symphony("switch", cwd=nowhere, code=2).err


@pytest.mark.thorough
def test_a_command_never_selects_an_experiment_of_another_project(sandbox: Sandbox) -> None:
    """In a project without experiments, `delete -y` deleted the only experiment of another project."""
    sandbox.write(PROGRAM)
    other = sandbox.home.parent / "other"
    other.mkdir()
    (other / "Pulumi.yaml").write_text("name: other\nruntime: python\n")
    sandbox.symphony("up", "theirs", "-y")
    before = sandbox.trees()
    for words in (
        "delete -y",
        "restart -y",
        "delete thei",
        "db the* -y",
        "db /the/ -y",
        "logs",
        "exec a -- true",
    ):
        assert sandbox.symphony(*words.split(), cwd=other, code=2).err.count("\n") == 1
    sandbox.symphony("switch", "theirs", cwd=other)
    assert "project other has no experiment" in sandbox.symphony("delete", "-y", cwd=other, code=2).err
    assert sandbox.trees() == before
    assert sandbox.symphony("exec", "theirs", "a", "--", "echo", "full", cwd=other).out == "full\n"
    sandbox.symphony("db", "sandbox/th*", "-y", cwd=other)
    assert sandbox.trees() == {}


@pytest.mark.thorough
def test_switch_applies_outside_projects_and_a_project_overrides_it(
    two_projects: tuple[Sandbox, Path, Path],
) -> None:
    sandbox, other, nowhere = two_projects
    sandbox.symphony("up", "second", "-y")
    sandbox.symphony("switch", "second")
    assert sandbox.symphony("switch", cwd=other).out == "theirs\n"
    assert "switch" not in sandbox.symphony("process", cwd=nowhere).err
    told = sandbox.symphony("process", "--json").err
    assert "second" in told
    assert "symphony switch" in told
    sandbox.symphony("delete", "second", "-y")


@pytest.mark.thorough
def test_the_error_names_the_project_that_started_the_experiment(
    two_projects: tuple[Sandbox, Path, Path],
) -> None:
    sandbox, other, nowhere = two_projects
    before = sandbox.trees(), sandbox.stacks()
    for folder, words in (
        (other, "the tmux session mine belongs to sandbox/mine"),
        (nowhere, f"started from {sandbox.folder}."),
    ):
        assert words in sandbox.symphony("up", "mine", cwd=folder, code=2).err
    moved = sandbox.folder.rename(sandbox.folder.with_name("moved"))
    assert "is gone" in sandbox.symphony("up", "mine", cwd=nowhere, code=2).err
    moved.rename(sandbox.folder)
    assert (sandbox.trees(), sandbox.stacks()) == before


def test_ctrl_c_at_the_delete_question_changes_nothing(two_projects: tuple[Sandbox, Path, Path]) -> None:
    sandbox, _, _ = two_projects
    with terminal(sandbox, [str(SYMPHONY), "delete", "mine"]) as seen:
        seen.shows("[y/N]")
        seen.type("C-c")
        assert seen.ends() == 130
        assert "Nothing was changed." in seen.screen()


@pytest.mark.thorough
def test_a_single_program_needs_no_stack_name_and_plan_writes_no_file(sandbox: Sandbox) -> None:
    """The stack is named after its project or, where the project has several programs, after the program."""
    sandbox.write(PROGRAM)
    before = sorted(sandbox.folder.iterdir())
    assert "sandbox on tmux" in sandbox.symphony("plan").out
    assert sandbox.stacks() == set()
    assert [each for each in sorted(sandbox.folder.iterdir()) if each.name != "__pycache__"] == before
    (sandbox.folder / "stacks").mkdir()
    sandbox.write(PROGRAM, "stacks/train.py")
    (sandbox.folder / "__main__.py").write_text("import symphony\nsymphony.run_program()\n")
    assert "train on tmux" in sandbox.symphony("plan").out


@pytest.mark.thorough
def test_switch_selects_and_delete_batch_deletes_by_pattern(sandbox: Sandbox) -> None:
    sandbox.write(PROGRAM)
    for name in ("sweep-1", "sweep-2", "other"):
        sandbox.symphony("up", name, "-y")
    assert "symphony switch" in sandbox.symphony("process", code=2).err
    assert "symphony switch" in sandbox.symphony("switch", code=2).err
    assert sandbox.symphony("switch", "sweep-2").out == "sweep-2\n"
    assert sandbox.symphony("e").out == "sweep-2\n"
    output = sandbox.symphony("exec", "a", "--", "printenv", "SYMPHONY_ID").out
    assert "/sweep-2#" in output
    assert "other" in sandbox.symphony("se", "nothing", code=2).err
    assert "current" in {each.name for each in sandbox.home.iterdir()}
    # Outside of projects, a pattern stands for experiments of every project.
    waited = sandbox.symphony("wait", "sweep-*", "--for", "ready", cwd=sandbox.home.parent).out
    assert [line.partition(":")[0] for line in waited.splitlines()] == ["sweep-1", "sweep-2"]

    assert "without a terminal" in sandbox.symphony("delete-batch", "sweep-*", code=2).err
    assert "zzz-*" in sandbox.symphony("db", "sweep-*", "zzz-*", "-y", code=2).err
    assert len(sandbox.symphony("ls", "--json").json) == 3
    with terminal(sandbox, [str(SYMPHONY), "delete-batch", "sweep-*"]) as screen:
        shown = screen.shows("[y/N]")
        assert "sweep-1  1 process" in shown
        assert "Delete 2 experiments" in shown
        screen.type("n", "Enter")
        assert screen.ends() == 1
    ran = sandbox.symphony("db", "sweep-*", "sweep-1", "-y")
    deleted = [line.split()[1] for line in ran.out.splitlines() if line.startswith("Deleted ")]
    assert sorted(deleted) == ["sweep-1:", "sweep-2:"]
    assert set(sandbox.trees()) == {"other/a"}
    for command, *process in (("wait",), ("exec", "a"), ("visit", "a"), ("why", "a")):
        assert "sweep-2 is not up" in sandbox.symphony(command, "sweep-2", *process, code=2).err
    # The selected experiment is deleted: commands select the only one again.
    assert sandbox.symphony("switch").out == "other\n"
    assert "no experiment is up" not in sandbox.symphony("process").err
