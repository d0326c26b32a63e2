"""Aliases, options and names of the original Symphony, typed at a real terminal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sandbox import Sandbox, sandbox_in, wait_for
from tests.terminal import Shell, shell

pytestmark = pytest.mark.thorough
PROGRAM = """
import pulumi
prefix = pulumi.get_stack()
with Experiment() as e:
    serve = "exec python -m http.server --bind 127.0.0.1 $SYMPH_BOARD_PORT >/dev/null 2>&1"
    learner = e.new_process("learner", cmds=["echo learner of " + prefix, "echo done", serve])
    learner.exposes({"board": None})
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


@pytest.mark.parametrize(("words", "code", "shown"), SAME, ids=[words for words, *_ in SAME])
def test_words_select_the_experiment_or_process(user_shell: Shell, words: str, code: int, shown: str) -> None:
    assert user_shell.run(f"symphony {words}") == (code, shown)


@pytest.mark.parametrize("words", ["logs learner rl", "x agent rl -- true", "why learner rl"])
def test_process_before_experiment_is_an_error_with_the_right_order(user_shell: Shell, words: str) -> None:
    code, shown = user_shell.run(f"symphony {words}")
    assert code == 2
    assert "Write the experiment first: rl " in shown


def test_ssh_attaches_with_and_without_experiment_name(user_shell: Shell) -> None:
    for words in ("rl learner", "learner"):
        user_shell.begin(f"symphony ssh {words}")
        user_shell.terminal.shows("1:learner*")
        user_shell.terminal.type("C-b", "d")
        assert user_shell.end()[0] == 0


def test_scp_copies_with_and_without_experiment_name(user_shell: Shell, sandbox: Sandbox) -> None:
    (sandbox.folder / "sent").write_text("text")
    place = sandbox.home.parent
    for number, words in enumerate(("rl sent learner:{}", "sent learner:{}")):
        target = place / f"there-{number}"
        code, shown = user_shell.run(f"symphony scp {words.format(target)}")
        assert (code, target.read_text()) == (0, "text"), shown
        back = words.replace("sent learner:{}", f"learner:{target} back-{number}")
        assert user_shell.run(f"symphony cp {back}")[0] == 0
        assert (sandbox.folder / f"back-{number}").read_text() == "text"


def test_visit_accepts_service_experiment_both_or_neither(user_shell: Shell, sandbox: Sandbox) -> None:
    visit = ("visit", "rl", "board", "-u")
    wait_for(lambda: not sandbox.symphony(*visit, code=None).code, 20, "it listens")
    shown = [user_shell.run(f"symphony vi {words} -u") for words in ("rl board", "rl", "board", "")]
    assert {code for code, _ in shown} == {0}
    ((url, *_),) = {tuple(text.splitlines()[-1:]) for _, text in shown}
    assert url.startswith("http://127.0.0.1:")


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
