"""README.md does not rot: its programs run, its screens are those one sees, its tables name what is there."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from symphony.cli.commands import COMMANDS, find
from tests.sandbox import ROOT, SYMPHONY, Sandbox, clone_in, sandbox_in, wait_for
from tests.terminal import terminal

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
# What differs from run to run: times, ports, and who was quicker.
MASKS = (
    (r"\d+\.\d s", "SECONDS"),
    (r"running: \d+s", "running: TIME"),
    (r":\d{4,5}\b", ":PORT"),
    (r"(ada|grace) says hello", "NAME says hello"),
)


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    found = re.findall(r"^( *)```(\w*)\n(.*?)^\1```$", TEXT, re.M | re.S)
    return [textwrap.dedent(body) for _, its, body in found if its == language]


HELLO, SETTINGS, TALK, SCRIPT = blocks("python")
SCREENS, MISTAKE = blocks("")


def screens(text: str) -> dict[str, list[str]]:
    """command -> the lines it shows."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("$ "):
            found[line[2:]] = []
        else:
            found[[*found][-1]].append(line)
    return found


def shape(lines: list[str]) -> list[str]:
    """The lines with what differs from run to run masked, in an order of their own."""
    masked = []
    for line in lines:
        for pattern, name in MASKS:
            line = re.sub(pattern, name, line)
        masked.append(line.rstrip())
    return sorted(masked)


def on_a_terminal(sandbox: Sandbox, command: str, *, answer: str = "", code: int = 0) -> list[str]:
    """The lines on the screen of a person who types a command of symphony and answers what it asks."""
    with terminal(sandbox, [str(SYMPHONY), *command.split()[1:]], columns=120) as person:
        if answer:
            person.shows("[y/N]")
            person.type(answer, "Enter")
        assert person.ends() == code
        lines = person.history().splitlines()
    return [line for line in lines if line and not line.startswith("Pane is dead")]


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """The root project, as a clone would have it."""
    with sandbox_in(tmp_path, folder=clone_in(tmp_path)) as made:
        yield made


def test_the_first_experiment_is_the_file_it_names() -> None:
    _, _, code = (ROOT / "stacks" / "hello.py").read_text().split('"""', 2)
    assert code.strip() == HELLO.strip()


def test_the_screens_of_the_first_experiment(sandbox: Sandbox) -> None:
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


def test_the_screen_of_a_mistake(sandbox: Sandbox) -> None:
    """A program with the mistakes of README's, on the lines it names."""
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


def test_what_a_process_may_say_can_be_planned(sandbox: Sandbox) -> None:
    (sandbox.folder / "stacks" / "rl.py").write_text(f"from symphony import Experiment\n{SETTINGS}")
    (sandbox.folder / "agents").mkdir()
    plan = sandbox.symphony("plan", "rl", "--json").json["plan"]
    assert {each["path"] for each in plan["processes"]} == {"a", "b", "agents/agent-0"}
    assert {each["name"]: each["port"] for each in plan["services"]}.items() >= {
        ("metrics", 9090),
        ("tensorboard", 6006),
    }


def test_what_processes_say_to_each_other(sandbox: Sandbox) -> None:
    (sandbox.folder / "talk.py").write_text(TALK)
    declared = """
    from symphony import Experiment
    with Experiment("talk") as experiment:
        for name, says in (("learner", "binds"), ("agent", "connects")):
            process = experiment.new_process(name, command="python", args=["-u", "talk.py", name])
            getattr(process, says)("replay")
    """
    (sandbox.folder / "stacks" / "talk.py").write_text(textwrap.dedent(declared))
    sandbox.symphony("up", "talk", "-y")
    said = wait_for(lambda: sandbox.symphony("logs", "talk", "learner").out, 30, "the learner has pulled")
    assert "1.0" in said
    sandbox.symphony("delete", "talk", "-y")


def test_the_plain_script(sandbox: Sandbox) -> None:
    assert sandbox.python(SCRIPT).out.startswith("sweep is up: 1 of 1 running")
    assert set(sandbox.trees()) == {"sweep/p0"}
    sandbox.symphony("delete", "sweep", "-y")


def test_the_settings_of_a_stack_can_be_committed() -> None:
    """.gitignore keeps only those out in which nobody sets anything."""
    (settings,) = blocks("yaml")
    file = settings.splitlines()[0].removeprefix("# ")
    # Those that may be left out are there as remarks.
    assert set(yaml.safe_load(settings.replace("  # kubernetes", "  kubernetes"))["config"]) == {
        "symphony:backend",
        "symphony:image",
        "kubernetes:context",
        "kubernetes:kubeconfig",
    }
    ignored = [line for line in (ROOT / ".gitignore").read_text().splitlines() if line.startswith("stacks/")]
    assert not [pattern for pattern in ignored if Path(file).match(pattern) or "*" in pattern]


@pytest.mark.thorough
def test_settings_without_the_salt_do_for_whoever_has_the_stack(sandbox: Sandbox) -> None:
    """What another person commits: the line is not theirs to write, and the engine writes it again."""
    settings = "config:\n  numint:workers: '1'\n  numint:steps: '100000'\n"
    file = sandbox.folder / "stacks" / "Pulumi.numint.yaml"
    for command in ("up", "up", "delete"):
        file.write_text(settings)
        sandbox.symphony(command, "numint", "-y")
        assert "numint:workers: " in file.read_text()
    assert sandbox.trees() == {}


def test_every_command_is_in_the_table() -> None:
    rows = re.findall(r"^\| (`symphony .*?) \|", TEXT, re.M)
    said = {name for row in rows for name in re.findall(r"`(?:symphony )?([a-z-]+)", row)}
    assert said == {row.name for row in COMMANDS}
    assert all(find(name) for name in re.findall(r"`symphony ([a-z][a-z-]*)", TEXT))


def test_every_folder_of_the_table_is_there() -> None:
    table = TEXT.partition("| folder | holds |")[2].partition("\n\n")[0]
    folders = re.findall(r"`([\w/]+)`", "\n".join(row.split("|")[1] for row in table.splitlines()[2:]))
    assert len(folders) > 10
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []
    rooms = {each.parent.name for each in (ROOT / "symphony").glob("*/__init__.py")}
    assert {folder.partition("/")[2] for folder in folders if folder.startswith("symphony/")} == rooms


def test_every_file_it_names_is_there() -> None:
    """Programs, links and targets of make; rl is the example that is not in the repository."""
    named = re.findall(r"`((?:stacks|examples|symphony|tests|toolchain)/[\w./-]+\.\w+)`", TEXT)
    assert [file for file in named if "NAME" not in file and not (ROOT / file).exists()] == []
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"\bmake ([a-z-]+)", TEXT)) <= targets
