"""README.md is correct: its programs run, its screens are real, its table has every command."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import picture
from symphony import paths
from symphony.cli.commands import COMMANDS, find
from tests.documents import blocks, on_a_terminal, screens, shape, talk, text
from tests.sandbox import ROOT, Sandbox, clone_in, sandbox_in, wait_for

TEXT = text("README.md")
HELLO, STEPS, _ = blocks("README.md", "python")
(SETTINGS,) = blocks("docs/settings.md", "python")
(LOOP,) = blocks("README.md", "")
(SWEEP,) = blocks("README.md", "console")
(MISTAKE,) = blocks("docs/code.md", "")
SCREENS = text("docs/screens/hello.txt")


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """A copy of the root project, as in a clone."""
    with sandbox_in(tmp_path, folder=clone_in(tmp_path)) as made:
        yield made


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Sandbox]:
    """An empty folder called lab."""
    (tmp_path / "lab").mkdir()
    with sandbox_in(tmp_path, folder=tmp_path / "lab") as made:
        yield made


def test_the_picture_of_hello_is_up_to_date() -> None:
    """Another test compares the screen with a real one."""
    assert text("docs/screens/hello.svg") == picture.svg("hello"), "run `python -m scripts.picture`"


@pytest.mark.thorough
def test_the_picture_of_surreal_is_up_to_date(sandbox: Sandbox) -> None:
    drawn = picture.surreal(sandbox.symphony("plan", "surreal", "--json").json)
    # Free ports differ between runs.
    kept, now = (re.sub(r":\d+<", ":PORT<", svg) for svg in (text("docs/screens/surreal.svg"), drawn))
    assert now == kept, "run `python -m scripts.picture`"


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_the_table_and_picture_of_the_sweep_are_up_to_date(tmp_path: Path) -> None:
    """With matplotlib, which `make test-thorough` installs."""
    with sandbox_in(tmp_path, folder=tmp_path / "descent") as sandbox:
        shown = picture.sweep(sandbox)
        assert shown == {command: screens(SWEEP)[command] for command in shown}
        drawn = (sandbox.folder / "grid-loss.svg").read_text()
        assert drawn == text("docs/screens/sweep.svg"), "run `python -m scripts.picture`"


def test_the_first_program_equals_stacks_hello_py() -> None:
    _, _, code = (ROOT / "stacks" / "hello.py").read_text().split('"""', 2)
    assert code.strip() == HELLO.strip()


def test_screens_of_the_first_experiment_match_real_output(sandbox: Sandbox) -> None:
    up, process, logs, delete = shown = screens(SCREENS)
    assert (up, process, delete) == (
        "symphony up hello",
        "symphony process hello",
        "symphony delete hello -y",
    )
    assert shape(on_a_terminal(sandbox, up, answer="y")) == shape(shown[up])
    wait_for(lambda: "hello, grace!" in sandbox.symphony("logs", "hello").out, 20, "grace is answered")
    for command in (process, logs, delete):
        assert shape(on_a_terminal(sandbox, command)) == shape(shown[command])
    assert sandbox.trees() == {}


@pytest.mark.thorough
def test_own_project_and_edit_loop_match_real_output(lab: Sandbox) -> None:
    """After `symphony init`, and after the edits that the text describes."""
    lab.symphony("init")
    program = lab.folder / "__main__.py"
    lab.symphony("up", "-y")
    edited = program.read_text().replace("cmds=[serve])", 'cmds=[serve], env={"SEED": 7})')
    program.write_text(edited.replace("range(2)", "range(3)"))
    ((command, shown),) = screens(LOOP).items()
    assert shape(on_a_terminal(lab, command, answer="y")) == shape(shown)
    lab.symphony("delete", "lab", "-y")


def test_the_program_of_dependent_steps_runs_in_order(lab: Sandbox) -> None:
    for step in ("prepare", "train", "evaluate"):
        (lab.folder / f"{step}.py").write_text(f"print({step!r}, 'is done')\n")
    (lab.folder / "Pulumi.yaml").write_text("name: lab\nruntime: python\n")
    (lab.folder / "__main__.py").write_text(STEPS)
    lab.symphony("up", "lab", "-y", "--wait")
    logs = lab.symphony("logs", "lab").out
    places = [logs.index(f"{step} is done") for step in ("prepare", "train", "evaluate")]
    assert places == sorted(places)


def test_the_screen_of_problems_matches_real_output(sandbox: Sandbox) -> None:
    """The program has the mistakes of docs/code.md on the same lines."""
    lines = {
        1: "from symphony import Experiment",
        2: "experiment = Experiment('rl')",
        7: "learner = experiment.new_process('learner', command='true')",
        8: "learner.binds('replay-server')",
        9: "learner.binds('parameter-server')",
        14: "experiment.new_process('agent-0', command='true').connects('replay-sever')",
        20: "ps = experiment.new_process('ps', command='true')",
        21: "ps.binds('parameter-server')",
        22: "experiment.launch()",
    }
    program = "\n".join(lines.get(number, "") for number in range(1, 23))
    (sandbox.folder / "stacks" / "rl.py").write_text(program)
    ((command, shown),) = screens(MISTAKE).items()
    assert on_a_terminal(sandbox, command, code=2) == shown


@pytest.mark.thorough
def test_the_program_of_settings_can_be_planned(sandbox: Sandbox) -> None:
    (sandbox.folder / "stacks" / "rl.py").write_text(f"from symphony import Experiment\n{SETTINGS}")
    (sandbox.folder / "agents").mkdir()
    (sandbox.folder / ".wandb_key").write_text("0a1b2c3d\n")
    home = {"HOME": str(sandbox.folder), "XDG_CACHE_HOME": str(paths.cache().parent)}
    plan = sandbox.symphony("plan", "rl", "--json", env=home).json["plan"]
    assert {each["path"] for each in plan["processes"]} == {"a", "b", "agents/agent-0"}
    assert {each["name"]: each["port"] for each in plan["services"]}.items() >= {
        ("metrics", 9090),
        ("tensorboard", 6006),
    }


@pytest.mark.thorough
def test_the_program_with_caraml_exchanges_messages(sandbox: Sandbox) -> None:
    (sandbox.folder / "talk.py").write_text(talk())
    declared = """
    from symphony import Experiment
    with Experiment("talk") as experiment:
        for name, says in (("learner", "binds"), ("agent", "connects")):
            process = experiment.new_process(name, command="python", args=["-u", "talk.py", name])
            getattr(process, says)("replay")
    """
    (sandbox.folder / "stacks" / "talk.py").write_text(textwrap.dedent(declared))
    sandbox.symphony("up", "talk", "-y")
    result = wait_for(lambda: sandbox.symphony("logs", "talk", "learner").out, 30, "the learner has pulled")
    assert "1.0" in result
    sandbox.symphony("delete", "talk", "-y")


@pytest.mark.thorough
def test_committed_settings_without_the_salt_work_for_the_owner(sandbox: Sandbox) -> None:
    """The settings are committed without the salt; the engine writes it again."""
    settings = "config:\n  numint:workers: '1'\n  numint:steps: '100000'\n"
    file = sandbox.folder / "stacks" / "Pulumi.numint.yaml"
    for command in ("up", "up", "delete"):
        file.write_text(settings)
        sandbox.symphony(command, "numint", "-y")
        assert "numint:workers: " in file.read_text()
    assert sandbox.trees() == {}


def test_the_table_lists_every_command() -> None:
    rows = re.findall(r"^\| (`symphony .*?) \|", TEXT, re.M)
    result = {name for row in rows for name in re.findall(r"`(?:symphony )?([a-z-]+)`", row)}
    assert result == {row.name for row in COMMANDS}
    assert all(find(name) for name in re.findall(r"`symphony ([a-z][a-z-]*)", TEXT))
