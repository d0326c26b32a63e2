"""Programs under plain `pulumi`: the resources of a launch, and the message of each kind of error."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from symphony.engine.binary import Engine
from tests.sandbox import Sandbox, sandbox_in


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A project with the program stacks/hello.py, and its empty stack."""
    with sandbox_in(tmp_path_factory.mktemp("plain"), "test") as made:
        made.write('from symphony import run_program\n\nrun_program("stacks")')
        (made.folder / "stacks").mkdir()
        made.pulumi("stack", "init", "hello")
        yield made


def up(sandbox: Sandbox, engine: Engine, program: str) -> tuple[int, str]:
    """Return the exit code and the output of `pulumi up`."""
    (sandbox.folder / "stacks" / "hello.py").write_text(textwrap.dedent(program))
    words = ["up", "--stack=hello", "--yes", "--skip-preview", "--non-interactive", "--color=never"]
    process = sandbox.start([str(engine.pulumi), *words], env=sandbox.exports)
    out, err = process.communicate(timeout=60)
    return process.returncode, out + err


def resources(sandbox: Sandbox) -> list[dict[str, Any]]:
    exported = sandbox.pulumi("stack", "export", "--stack=hello").json
    return exported["deployment"].get("resources", [])


PLAN = """
    from symphony import Experiment
    with Experiment("rl") as exp:
        exp.new_process("a", ["sleep 1"]).binds("replay")
        exp.new_process("b").connects("replya")
"""
EXCEPTION = """
    from symphony import Experiment

    def rate(text):
        return float(text)

    with Experiment("rl") as exp:
        exp.new_process("a", ["sleep 1"])
        rate("fast")
"""
CALL = """
    from symphony import Experiment
    with Experiment("rl") as exp:
        exp.new_process("a", ["sleep 1"]).set_env("A")
"""
TWO = """
    from symphony import Experiment
    a = Experiment("a")
    b = Experiment("b")
"""
LATE = """
    from symphony import Experiment
    exp = Experiment("rl")
    exp.new_process("a", ["sleep 1"])
    exp.launch()
    exp.get_process("a").set_env("A", "1")
"""


@pytest.mark.parametrize(
    ("program", "words"),
    [
        pytest.param(
            PLAN,
            [
                "hello cannot run: 2 problems in stacks/hello.py",
                'b connects to "replya"',
                'did you mean "replay"?',
                "b has no command",
                "line 5",
                "Nothing was started.",
            ],
            id="plan",
        ),
        pytest.param(
            EXCEPTION,
            [
                'File "stacks/hello.py", line 9, in <module>',
                'File "stacks/hello.py", line 5, in rate',
                "ValueError: could not convert string to float: 'fast'",
            ],
            id="exception",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            CALL, ['stacks/hello.py", line 4', "TypeError: "], id="wrong call", marks=pytest.mark.thorough
        ),
        pytest.param(TWO, ['"a" and "b"', "lines 3, 4"], id="two experiments", marks=pytest.mark.thorough),
        pytest.param(
            "a = (\n",
            ['stacks/hello.py", line 1', "SyntaxError: "],
            id="syntax",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_an_error_of_the_program_shows_only_the_users_frames(
    sandbox: Sandbox, engine: Engine, program: str, words: list[str]
) -> None:
    code, output = up(sandbox, engine, program)
    assert code != 0
    assert [word for word in words if word not in output] == [], output
    assert [word for word in ("runpy", "site-packages", "symphony/components") if word in output] == []
    assert [each for each in resources(sandbox) if each["type"] != "pulumi:pulumi:Stack"] == []


@pytest.mark.thorough
def test_a_change_after_the_launch_is_refused_with_its_line(sandbox: Sandbox) -> None:
    (sandbox.folder / "stacks" / "hello.py").write_text(textwrap.dedent(LATE))
    output = sandbox.pulumi("preview", "--stack=hello", code=None)
    assert output.code != 0
    assert "is changed after its launch (stacks/hello.py:6)" in output.out


HELLO = """
    from symphony import Experiment

    with Experiment("hello") as exp:
        group = exp.new_process_group("guests")
        server = exp.new_process("server", command="sleep", args=[600])
        server.binds("greetings")
        group.new_process("ada", ["sleep 600"]).connects("greetings")
"""


def test_a_launch_registers_its_resources(sandbox: Sandbox, engine: Engine) -> None:
    code, output = up(sandbox, engine, HELLO)
    assert code == 0, output
    every = resources(sandbox)

    def label_of(each: dict[str, Any]) -> str:
        kind = each["type"].rpartition(":")[2]
        return f"{kind} {each['urn'].rpartition('::')[2]}"

    names = {each["urn"]: label_of(each) for each in every}
    parents = {label_of(each): names.get(each.get("parent", "")) for each in every}
    assert {
        name: parents[name] for name in parents if name.startswith(("Experiment", "Process", "Window"))
    } == {
        "Experiment hello": "Stack test-hello",
        "Process server": "Experiment hello",
        "ProcessGroup guests": "Experiment hello",
        "Process guests/ada": "ProcessGroup guests",
        "Window server": "Process server",
        "Window guests/ada": "Process guests/ada",
    }
    declared = {label_of(each): each.get("inputs", {}).get("declared") for each in every}
    inputs = declared["Experiment hello"]
    assert (inputs["name"], inputs["backend"], inputs["launched_as"]) == ("hello", "tmux", "hello")
    assert inputs["processes"] == ["server", "guests/ada"]
    assert inputs["folder"] == str(sandbox.folder)
    (service,) = inputs["services"]
    assert (service["name"], service["host"], service["path"]) == ("greetings", "127.0.0.1", "server")
    ada = declared["Process guests/ada"]
    assert ada["cmds"] == ["sleep 600"]
    assert str(int(service["port"])) in ada["services"].values()
    sandbox.pulumi("destroy", "--stack=hello", "--yes", "--skip-preview")
    assert sandbox.trees() == {}
