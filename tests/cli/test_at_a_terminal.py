"""Aliases, options and names of the original Symphony, typed at a real terminal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sandbox import Sandbox, sandbox_in
from tests.terminal import Shell, shell

pytestmark = pytest.mark.thorough
PROGRAM = """
import pulumi
prefix = pulumi.get_stack()
with Experiment() as e:
    learner = e.new_process("learner", cmds=["echo learner of " + prefix, "echo done", "sleep 3600"])
    learner.binds("params")
    group = e.new_process_group("pool")
    group.new_process("agent", cmds=["echo agent of " + prefix, "sleep 3600"]).connects("params")
"""
EXPERIMENTS = ("rl", "agent-sweep-1", "agent-sweep-2")


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with sandbox_in(tmp_path_factory.mktemp("typed")) as made:
        made.write(PROGRAM)
        for name in EXPERIMENTS:
            made.symphony("up", name, "-y")
        made.symphony("plan", "planned")
        made.symphony("up", "learned", "-y")
        made.symphony("delete", "learned", "-f")
        yield made


@pytest.fixture(scope="module")
def user_shell(sandbox: Sandbox) -> Iterator[Shell]:
    with shell(sandbox) as opened:
        yield opened


@pytest.fixture(autouse=True)
def current(sandbox: Sandbox) -> None:
    sandbox.symphony("switch", "rl")


LEARNER = "learner of rl\ndone"
NOTE = "symphony: rl, the current experiment (`symphony switch` chooses it)\n"
SAME = [
    ("logs rl learner", 0, LEARNER),
    ("l agent-sweep-2 agent", 0, "agent of agent-sweep-2"),
    ("exec rl learner -- echo in it", 0, "in it"),
    ("x rl agent -- sh -c 'echo $SYMPHONY_ROLE; exit 4'", 4, "agent"),
    # Names of processes in the current experiment.
    ("logs learner", 0, NOTE + LEARNER),
    ("logs agent", 0, f"{NOTE}agent of rl"),
    ("logs pool", 0, f"{NOTE}agent of rl"),
    ("x agent -- echo hi", 0, f"{NOTE}hi"),
    # Indices instead of names, as in kubectl.
    ("logs rl learner -s 0", 0, LEARNER),
    ("logs rl learner -t -1", 0, LEARNER),
    ("log rl learner -s 0 -t 1", 0, "done"),
    ("l rl learner -t 0", 0, ""),
]


def test_words_select_the_experiment_or_process(user_shell: Shell) -> None:
    for words, code, shown in SAME:
        assert user_shell.run(f"symphony {words}") == (code, shown), words


def test_process_before_experiment_is_an_error_with_the_right_order(user_shell: Shell) -> None:
    for words in ("logs learner rl", "x agent rl -- true", "why learner rl"):
        code, shown = user_shell.run(f"symphony {words}")
        assert code == 2
        assert "Write the experiment first: rl " in shown


def test_list_commands_show_only_experiments_that_are_up(user_shell: Shell) -> None:
    def names(words: str) -> list[str]:
        return [line.split()[0] for line in user_shell.run(f"symphony {words}")[1].splitlines()[1:]]

    # Deleted and only planned experiments are in no list.
    assert names("ls") == sorted(EXPERIMENTS)
    assert names("ls sweep") == names("lse 'agent-*'") == ["agent-sweep-1", "agent-sweep-2"]
    assert names("p rl") == names("lsp rl") == ["learner", "pool"]
    for words in ("p learne", "db 'learn*'", "e planne", "p planned", "d plan", "x planed a -- a"):
        code, shown = user_shell.run(f"symphony {words}")
        assert (code, "learned" in shown, '"planned"?' in shown) == (2, False, False), shown
    # If the word matches only one process, it selects that.
    assert user_shell.run("symphony logs learn") == (0, NOTE + LEARNER)
    assert "learned is not up" in user_shell.run("symphony e learned")[1]


def test_dry_runs_and_refusals_change_nothing(user_shell: Shell, sandbox: Sandbox) -> None:
    before = sandbox.trees()
    for words in (
        "d rl -dr",
        "d rl --dry-run",
        "db rl 'agent-*' -dr",
        "db '/sweep-[12]$/' --dry-run",
        "up rl -dr",
    ):
        code, shown = user_shell.run(f"symphony {words}")
        assert code == 0, shown
    assert "3 processes" not in shown
    code, shown = user_shell.run("symphony db '/sweep-(/' -dr")
    assert code == 2
    assert "sweep-(" in shown
    assert sandbox.trees() == before


def test_force_switches_and_deletes_without_questions(user_shell: Shell, sandbox: Sandbox) -> None:
    assert user_shell.run("symphony e new -f") == (0, "new")
    assert user_shell.run("symphony switch-experiment --force rl") == (0, "rl")
    assert user_shell.run("symphony db '/sweep-1$/' -f")[0] == 0
    assert user_shell.run("symphony d agent-sweep-2 --force")[0] == 0
    assert {tree.partition("/")[0] for tree in sandbox.trees()} == {"rl"}
