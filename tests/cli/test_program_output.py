"""`plan` and `up` print the output of the user's program; run by hand, the program names `symphony up`."""

from __future__ import annotations

import sys

import pytest

from symphony.engine.run.events import Diagnostic
from symphony.operations.plan import ProgramOutput
from tests.sandbox import SYMPHONY, Sandbox
from tests.terminal import terminal

SPEAKS = """
import logging, os, pulumi, warnings
print("reading the data\\tset")
warnings.warn("this is old")
logging.warning("3 workers")
pulumi.log.warn("the disk is slow")
if os.environ.get("FAIL"):
    raise KeyError("worker")
with Experiment() as e:
    e.new_process("a", command=["sleep", "600"])
"""
STACK = "urn:pulumi:rl::lab::pulumi:pulumi:Stack::lab-rl"


@pytest.mark.thorough
def test_plan_and_up_print_program_output_with_a_prefix(sandbox: Sandbox) -> None:
    sandbox.write(SPEAKS)
    planned = sandbox.symphony("plan", "rl").out
    for line in (
        "program | reading the data set",
        "UserWarning: this is old",
        "program | WARNING:root:3 workers",
    ):
        assert line in planned
    # pulumi.log.warn(), which GkeCluster calls too, for example for an unknown machine type.
    assert planned.count("the disk is slow") == 1
    facts = sandbox.symphony("plan", "rl", "--json")
    assert facts.json["stack"] == "rl"
    assert "program | reading" in facts.err
    with terminal(sandbox, [str(SYMPHONY), "up", "rl"]) as person:
        person.shows("[y/N]")
        person.type("y", "Enter")
        assert person.ends() == 0
        # The program ran twice, for the plan and for the update.
        assert person.history().count("reading the data") == 1
    assert "program | reading" in sandbox.symphony("up", "rl", "-y").out


@pytest.mark.thorough
def test_output_of_a_failing_program_is_printed_before_the_error(sandbox: Sandbox) -> None:
    sandbox.write(SPEAKS)
    ran = sandbox.symphony("up", "rl", "-y", code=2, env={"FAIL": "yes"})
    assert "program | reading the data" in ran.out
    assert "KeyError: 'worker'" in ran.err
    sandbox.write("print('no data'); raise SystemExit(3)")
    ran = sandbox.symphony("plan", "rl", code=2)
    assert "program | no data" in ran.out
    assert "the program of rl exited with 3" in ran.err


@pytest.mark.thorough
def test_a_misspelt_name_of_the_api_keeps_pythons_suggestion(sandbox: Sandbox) -> None:
    sandbox.write('Experiment("rl").new_process("a").bnids("s")')
    assert "Did you mean: 'binds'?" in sandbox.symphony("plan", "rl", code=2).err
    programs = sandbox.folder / "stacks"
    programs.mkdir()
    (sandbox.folder / "__main__.py").rename(programs / "rl.py")
    (sandbox.folder / "__main__.py").write_text("import symphony\nsymphony.run_program()\n")
    assert "Did you mean: 'binds'?" in sandbox.symphony("plan", "rl", code=2).err


def test_progress_diagnostics_are_not_printed_as_program_output() -> None:
    messages: list[str] = []
    output = ProgramOutput()
    output.to(messages.append)
    for event in (
        Diagnostic("info", "one\ntwo\n", STACK),
        Diagnostic("info#err", "one"),
        Diagnostic("info", "creating", "urn:pulumi:rl::lab::kubernetes:core/v1:Pod::a"),
        Diagnostic("info", "waiting...", STACK, ephemeral=True),
        Diagnostic("warning", "old", STACK),
    ):
        output.take(event)
    assert messages == ["one", "two", "one"]
    output.to(messages.append)
    output.take(Diagnostic("info", "one\none\none"))
    assert messages == ["one", "two", "one", "one"]


@pytest.mark.parametrize(
    "program",
    ["with Experiment() as e: e.new_process('a', command='true')", "import symphony; symphony.run_program()"],
)
def test_a_program_run_by_hand_exits_with_one_line_that_names_symphony_up(
    sandbox: Sandbox, program: str
) -> None:
    sandbox.write(program)
    ran = sandbox.run([sys.executable, "__main__.py"], code=1)
    assert ran.out == ""
    assert ran.err.count("\n") == 1
    assert "`symphony up`" in ran.err


def test_a_script_whose_processes_fail_exits_with_1(sandbox: Sandbox) -> None:
    script = """
from symphony import Cluster, SymphonyError
cluster = Cluster.new("tmux")
experiment = cluster.new_experiment("sweep")
experiment.new_process("good", command=["sleep", "600"])
experiment.new_process("bad", command=["false"]).binds("x")
try:
    cluster.launch(experiment)
except SymphonyError as error:
    print(error)
    raise SystemExit(error.exit_code)
"""
    output = sandbox.python(script, code=1).out
    assert output.startswith(
        "1 of 2 processes of sweep are not running. `symphony why sweep bad` explains it."
    )
    assert "  bad   failed: exit 1" in output
