"""Programs with the real engine: resources of a launch, and the message of each kind of error."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from symphony.engine import environment
from symphony.engine.binary import Engine

HELLO = """
    from symphony import Experiment

    with Experiment("hello") as exp:
        group = exp.new_process_group("guests")
        server = exp.new_process("server", command="sleep", args=[600])
        server.binds("greetings")
        group.new_process("ada", ["sleep 600"]).connects("greetings")
"""

# The text that the engine adds to every RunError.
ENGINES_LAST_WORD = "error: an unhandled error occurred: program exited with non-zero exit code: 1"


@dataclass(frozen=True)
class Project:
    """A project with one stack, and the engine to run it with."""

    folder: Path
    state: Path
    engine: Engine
    env: dict[str, str]

    def pulumi(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.engine.pulumi, *words, "--non-interactive", "--stack", "hello", "--color", "never"],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def write(self, program: str) -> None:
        (self.folder / "stacks" / "hello.py").write_text(textwrap.dedent(program))

    def preview(self, program: str) -> subprocess.CompletedProcess[str]:
        self.write(program)
        return self.pulumi("preview")

    def up(self, program: str) -> subprocess.CompletedProcess[str]:
        self.write(program)
        return self.pulumi("up", "--yes", "--skip-preview")

    def refused(self, program: str) -> str:
        """Return the error of `up` for a program that cannot run; the state holds only the stack."""
        done = self.up(program)
        text = done.stdout + done.stderr
        assert done.returncode != 0, text
        assert [each for each in self.resources() if each["type"] != "pulumi:pulumi:Stack"] == [], text
        return text

    def resources(self) -> list[dict[str, Any]]:
        # Read the state files as `symphony ls` does: the engine would take a second each time.
        state = json.loads(next(self.state.rglob("stacks/test/hello.json")).read_text())
        return (state["checkpoint"].get("latest") or {}).get("resources") or []


def run_of(folder: Path, state: Path, engine: Engine) -> Project:
    extra = {
        "PULUMI_BACKEND_URL": f"file://{state}",
        "PULUMI_CONFIG_PASSPHRASE": "test",
        **environment.python(),
    }
    return Project(folder, state, engine, environment.for_engine(engine, extra=extra))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Path:
    """A project with an empty stack and its state, to be copied: ten times faster than a new one."""
    home = tmp_path_factory.mktemp("template")
    (home / "project" / "stacks").mkdir(parents=True)
    (home / "state").mkdir(mode=0o700)
    (home / "project" / "Pulumi.yaml").write_text("name: test\nruntime: python\nstackConfigDir: stacks\n")
    (home / "project" / "__main__.py").write_text(
        'from symphony import run_program\n\nrun_program("stacks")\n'
    )
    done = run_of(home / "project", home / "state", engine).pulumi("stack", "init")
    assert done.returncode == 0, done.stderr
    return home


@pytest.fixture
def project(own_home: Path, tmp_path: Path, template: Path, engine: Engine) -> Iterator[Project]:
    shutil.copytree(template / "project", tmp_path / "project")
    shutil.copytree(template / "state", own_home / "state")
    made = run_of(tmp_path / "project", own_home / "state", engine)
    yield made
    if any(each["type"].endswith(":Window") for each in made.resources()):
        made.pulumi("destroy", "--yes", "--skip-preview")


@pytest.fixture
def error_text(project: Project) -> Callable[[str], str]:
    """Return the errors in the engine's own words: the lines of its diagnostics, without indentation."""

    def run(program: str) -> str:
        text = project.refused(program)
        _, _, diagnostics = text.partition("Diagnostics:")
        lines = [line.strip() for line in diagnostics.partition("Resources:")[0].splitlines()]
        return "\n".join(line for line in lines if line and line != ENGINES_LAST_WORD)

    return run


def test_a_launch_registers_its_resources(project):
    done = project.up(HELLO)
    assert done.returncode == 0, done.stdout + done.stderr
    resources = {
        each["urn"].rpartition("::")[2]: each for each in project.resources() if "tmux" not in each["type"]
    }
    by_urn = {each["urn"]: each for each in project.resources()}

    def above(name: str, kind: str) -> str:
        (only,) = [
            each
            for urn, each in by_urn.items()
            if urn.endswith(f"::{name}") and each["type"] == f"symphony:index:{kind}"
        ]
        return by_urn[only["parent"]]["type"].rpartition(":")[2] + " " + only["parent"].rpartition("::")[2]

    assert above("hello", "Experiment") == "Stack test-hello"
    assert above("server", "Process") == "Experiment hello"
    assert above("guests", "ProcessGroup") == "Experiment hello"
    assert above("guests/ada", "Process") == "ProcessGroup guests"
    windows = [each for each in by_urn.values() if each["type"].endswith(":Window")]
    assert sorted(each["parent"].rpartition("::")[2] for each in windows) == ["guests/ada", "server"]

    (experiment,) = [each for each in by_urn.values() if each["type"] == "symphony:index:Experiment"]
    inputs = experiment["inputs"]["declared"]
    assert (inputs["name"], inputs["backend"], inputs["launched_as"]) == ("hello", "tmux", "hello")
    assert inputs["processes"] == ["server", "guests/ada"]
    assert inputs["folder"] == str(project.folder)
    (service,) = inputs["services"]
    assert (service["name"], service["host"], service["path"]) == ("greetings", "127.0.0.1", "server")
    (ada,) = [each for each in by_urn if each.endswith("Process::guests/ada")]
    assert by_urn[ada]["inputs"]["declared"]["cmds"] == ["sleep 600"]
    assert str(int(service["port"])) in by_urn[ada]["inputs"]["declared"]["services"].values()
    assert resources


@pytest.mark.thorough
def test_launch_without_a_with_block(project):
    done = project.preview(
        """
        from symphony import Experiment
        exp = Experiment()
        exp.new_process("a", ["sleep 1"])
        exp.launch()
        exp.launch()
        print(exp.name, exp.session, exp.addresses, exp.get_process("a").services)
        """
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hello hello {} {}" in done.stdout


def test_a_plan_problem_is_shown_without_traceback(error_text):
    text = error_text(
        """
        from symphony import Experiment
        with Experiment("rl") as exp:
            exp.new_process("a", ["sleep 1"]).binds("replay")
            exp.new_process("b").connects("replya")
        """
    )
    assert text == (
        "pulumi:pulumi:Stack (test-hello):\n"
        "error: hello cannot run: 2 problems in stacks/hello.py\n"
        'b connects to "replya", which no process binds           line 5   did you mean "replay"?\n'
        "b has no command, and tmux needs a command to start it   line 5"
        '   set command="python", args=["-u", "program.py"], or cmds=["shell line", ...]\n'
        "Nothing was started."
    )


@pytest.mark.thorough
def test_a_second_experiment_in_one_program_is_refused(error_text):
    text = error_text(
        """
        from symphony import Experiment
        a = Experiment("a")
        b = Experiment("b")
        """
    )
    assert 'declares two experiments, "a" and "b"' in text
    assert "lines 3, 4" in text


def test_an_exception_in_the_program_shows_only_the_users_frames(error_text):
    text = error_text(
        """
        from symphony import Experiment

        def rate(text):
            return float(text)

        with Experiment("rl") as exp:
            exp.new_process("a", ["sleep 1"])
            rate("fast")
        """
    )
    assert text.splitlines()[1:] == [
        "error: Traceback (most recent call last):",
        f'File "stacks{os.sep}hello.py", line 9, in <module>',
        'rate("fast")',
        f'File "stacks{os.sep}hello.py", line 5, in rate',
        "return float(text)",
        "^^^^^^^^^^^",
        "ValueError: could not convert string to float: 'fast'",
    ]


@pytest.mark.thorough
def test_a_type_error_in_a_call_shows_no_frame_of_symphony(error_text):
    text = error_text(
        """
        from symphony import Experiment
        with Experiment("rl") as exp:
            exp.new_process("a", ["sleep 1"]).set_env("A")
        """
    )
    assert "symphony/" not in text
    assert 'stacks/hello.py", line 4' in text
    assert text.splitlines()[-1].startswith("TypeError: ")


def test_a_change_after_the_launch_is_refused_with_its_line(project):
    done = project.preview(
        """
        from symphony import Experiment
        with Experiment("rl") as exp:
            exp.new_process("a", ["sleep 1"])
        exp.get_process("a").set_env("A", "1")
        """
    )
    assert done.returncode != 0
    assert "is changed after its launch (stacks/hello.py:5)" in done.stdout


def test_a_syntax_error_points_to_the_program(error_text):
    text = error_text("from symphony import Experiment\nwith Experiment(\n")
    assert 'stacks/hello.py", line 2' in text
    assert text.splitlines()[-1].startswith("SyntaxError: ")
    assert "runpy" not in text


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("namespace", "My Name", ["1 problem in stacks/hello.py"]),
        ("program", "helo", ["stacks/helo.py does not exist", "Did you mean hello?"]),
    ],
)
def test_invalid_stack_settings_are_reported_without_traceback(project, setting, value, words):
    project.pulumi("config", "set", f"symphony:{setting}", value)
    done = project.preview(HELLO)
    assert done.returncode != 0
    assert all(each in done.stdout for each in words), done.stdout
    assert "Traceback" not in done.stdout
