"""What the shell offers after a Tab, asked as its own completion script asks."""

from __future__ import annotations

import os

import pytest

from tests.desk import SYMPHONY, Desk


def offered(desk: Desk, line: str) -> set[str]:
    words = line.split(" ")
    env = {"_SYMPHONY_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    ran = desk.symphony(env=env)
    assert ran.err == ""
    return set(ran.out.split())


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("symphony d", {"delete", "delete-batch", "doctor"}),
        ("symphony logs --t", {"--tail", "--times"}),
        ("symphony process ", {"rl"}),
        ("symphony delete r", {"rl"}),
        ("symphony why rl agent", {"agent-0", "agent-1"}),
        ("symphony why l", {"learner"}),
        ("symphony why rl learner ", set[str]()),
        ("symphony logs rl learner e", {"eval", "eval/agent-0"}),
        ("symphony p r", {"rl"}),
        ("symphony exec rl w", {"wild"}),
        ("symphony exec rl wild -- l", set[str]()),
        ("symphony scp rl lea", {"learner:"}),
        ("symphony visit rl ", {"replay"}),
    ],
)
def test_what_is_offered(lab: Desk, line: str, found: set[str]) -> None:
    assert offered(lab, line) == found


def test_programs_for_up_and_nothing_from_a_broken_project(desk: Desk) -> None:
    (desk.folder / "stacks").mkdir()
    for name in ("train", "tune", "_shared"):
        (desk.folder / "stacks" / f"{name}.py").write_text("")
    assert offered(desk, "symphony up t") == {"train", "tune"}
    (desk.folder / "Pulumi.yaml").write_text("name: [\n")
    assert offered(desk, "symphony up t") == set()


def test_it_is_installed_for_bash(desk: Desk) -> None:
    """As a person does it, and then what bash calls for a Tab."""
    user = desk.home.parent / "user"
    user.mkdir()
    env = {"HOME": str(user), "PATH": f"{SYMPHONY.parent}{os.pathsep}{os.environ['PATH']}"}
    desk.run(["bash", "-c", "symphony --install-completion; true"], env=env)
    script = (
        "source ~/.bashrc; COMP_WORDS=(symphony doc); COMP_CWORD=1; "
        "$(complete -p symphony | sed 's/.*-F //; s/ .*//') symphony; echo ${COMPREPLY[@]}"
    )
    assert desk.run(["bash", "-c", script], env=env).out == "doctor\n"
