"""Which experiment, process or folder is meant, and what is said where that is not clear."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import SYMPHONY, Desk, desk_in
from tests.terminal import terminal

PROGRAM = 'with Experiment() as e: e.new_process("a", command=["sleep", "3600"])'


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("why rl", "which process of rl? Name one of: agent-0, agent-1, learner, wild, eval/agent-0."),
        ("exec rl -- true", "which process of rl?"),
        ("why rl agentt", 'Did you mean "agent-1" or "agent-0"?'),
        ("logs rl -t abc", '--tail "abc" is not a number of lines. Write it as `-t 20`.'),
    ],
)
def test_one_line_that_leads_on(lab: Desk, words: str, said: str) -> None:
    ran = lab.symphony(*words.split(), code=2)
    assert said in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Desk, Path, Path]]:
    """Two projects, `desk` and `other`, with an experiment each: `mine` and `theirs`; and a third folder."""
    place = tmp_path_factory.mktemp("two")
    with desk_in(place) as desk:
        desk.write(PROGRAM)
        other, nowhere = place / "elsewhere" / "other", place / "elsewhere" / "nowhere"
        for folder in (other, nowhere):
            folder.mkdir(parents=True)
        (other / "Pulumi.yaml").write_text("name: other\nruntime: python\n")
        (other / "__main__.py").write_text((desk.folder / "__main__.py").read_text())
        desk.symphony("up", "mine", "-y")
        desk.symphony("up", "theirs", "-y", cwd=other)
        yield desk, other, nowhere


def test_the_experiment_of_the_project_is_meant(two: tuple[Desk, Path, Path]) -> None:
    desk, other, nowhere = two
    assert desk.symphony("switch").out == "mine\n"
    assert desk.symphony("switch", cwd=other).out == "theirs\n"
    assert "there are several experiments" in desk.symphony("switch", cwd=nowhere, code=2).err


def test_another_folder_is_named(two: tuple[Desk, Path, Path]) -> None:
    desk, other, nowhere = two
    before = desk.trees()
    for folder in (other, nowhere):
        for command in ("plan", "up"):
            said = desk.symphony(command, "mine", cwd=folder, code=2).err
            assert f"started from {desk.folder}. Go there" in said
    assert desk.trees() == before
    assert desk.stacks() == {"desk/mine", "other/theirs"}


def test_a_name_that_is_like_no_program_is_asked_about(two: tuple[Desk, Path, Path]) -> None:
    desk, _, _ = two
    with terminal(desk, [str(SYMPHONY), "up", "mien"]) as seen:
        assert "desk has no experiment mien yet; up are mine." in seen.shows("[y/N]")
        seen.type("n", "Enter")
        assert seen.ends() == 1
    assert "desk/mien" not in desk.stacks()


def test_ctrl_c_at_the_question(two: tuple[Desk, Path, Path]) -> None:
    desk, _, _ = two
    with terminal(desk, [str(SYMPHONY), "delete", "mine"]) as seen:
        seen.shows("[y/N]")
        seen.type("C-c")
        assert seen.ends() == 130
        assert "Nothing was changed." in seen.screen()


def test_a_plan_writes_nothing(desk: Desk) -> None:
    desk.write(PROGRAM)
    before = sorted(desk.folder.iterdir())
    desk.symphony("plan", "rl")
    assert desk.stacks() == set()
    assert [each for each in sorted(desk.folder.iterdir()) if each.name != "__pycache__"] == before


def test_the_only_program_needs_no_name(desk: Desk) -> None:
    """Named as its project where it is alone, and as its file among others."""
    desk.write(PROGRAM)
    assert "desk on tmux" in desk.symphony("plan").out
    (desk.folder / "stacks").mkdir()
    desk.write(PROGRAM, "stacks/train.py")
    (desk.folder / "__main__.py").write_text("import symphony\nsymphony.run_program()\n")
    assert "train on tmux" in desk.symphony("plan").out
