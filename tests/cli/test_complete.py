"""Shell completions, requested as the completion script does after a Tab."""

from __future__ import annotations

import os

import pytest

from tests.sandbox import SYMPHONY, Sandbox


def completions_for(sandbox: Sandbox, line: str) -> set[str]:
    words = line.split(" ")
    env = {"_SYMPHONY_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    ran = sandbox.symphony(env=env)
    assert ran.err == ""
    return set(ran.out.split())


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("symphony d", {"delete", "delete-batch", "diff", "doctor", "drift"}),
        pytest.param("symphony logs --t", {"--tail", "--times"}, marks=pytest.mark.thorough),
        pytest.param("symphony delete r", {"rl"}, marks=pytest.mark.thorough),
        ("symphony why rl agent", {"agent-0", "agent-1"}),
        pytest.param("symphony why l", {"learner"}, marks=pytest.mark.thorough),
        pytest.param("symphony why rl learner ", set[str](), marks=pytest.mark.thorough),
        ("symphony logs rl learner e", {"eval", "eval/agent-0"}),
        pytest.param("symphony exec rl wild -- l", set[str](), marks=pytest.mark.thorough),
        pytest.param("symphony scp rl lea", {"learner:"}, marks=pytest.mark.thorough),
        pytest.param("symphony visit rl ", {"replay"}, marks=pytest.mark.thorough),
    ],
)
def test_completions_of_commands_options_and_names(lab: Sandbox, line: str, value: set[str]) -> None:
    assert completions_for(lab, line) == value


@pytest.mark.thorough
def test_up_completes_program_names_and_nothing_in_a_broken_project(sandbox: Sandbox) -> None:
    (sandbox.folder / "stacks").mkdir()
    for name in ("train", "tune", "_shared"):
        (sandbox.folder / "stacks" / f"{name}.py").write_text("")
    assert completions_for(sandbox, "symphony up t") == {"train", "tune"}
    (sandbox.folder / "Pulumi.yaml").write_text("name: [\n")
    assert completions_for(sandbox, "symphony up t") == set()


def test_install_completion_works_in_bash(sandbox: Sandbox) -> None:
    user = sandbox.home.parent / "user"
    user.mkdir()
    env = {"HOME": str(user), "PATH": f"{SYMPHONY.parent}{os.pathsep}{os.environ['PATH']}"}
    sandbox.run(["bash", "-c", "symphony --install-completion; true"], env=env)
    script = (
        "source ~/.bashrc; COMP_WORDS=(symphony doc); COMP_CWORD=1; "
        "$(complete -p symphony | sed 's/.*-F //; s/ .*//') symphony; echo ${COMPREPLY[@]}"
    )
    assert sandbox.run(["bash", "-c", script], env=env).out == "doctor\n"
