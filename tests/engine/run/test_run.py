"""Engine runs as streams of typed events, over the real engine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from symphony.engine import errors, workspace
from symphony.engine.run.events import Diagnostic, Failed, Finished, Started, Summary
from symphony.engine.run.run import Run
from symphony.engine.state import file_store, store
from symphony.engine.workspace import Workspace
from symphony.errors import SymphonyError
from tests.engine.state.test_prune import fill
from tests.engine.support import Runner

NAME = file_store.StackName("tiny", "dev")


def test_events_and_state_over_the_life_of_a_stack(run: Runner, tiny: Workspace) -> None:
    """Up, no change, preview and update, refresh, destroy: events and state agree at each step.

    An up prunes its history, in files whose names are those that the engine writes.
    """
    history = fill("history", 20)
    made = run("up")
    assert len(list(history.glob("*.history.json"))) == store.KEPT
    assert '"result"' in max(history.glob("*.history.json")).read_text()
    assert made.outcome.result == "succeeded"
    assert made.outcome.summary is not None
    assert made.outcome.summary.changes == {"create": 4}
    ops = {event.step.name: event.step.op for event in made.of_type(Finished)}
    assert ops == {"tiny-dev": "create", "box": "create", "one": "create", "two": "create"}
    assert {r.name for r in file_store.read_state(NAME).resources if r.id} >= {"one", "two"}
    assert file_store.read_state(NAME).resources[0].outputs == {"answer": 42}

    same = run("up")
    assert same.outcome.summary is not None
    assert same.outcome.summary.changes == {"same": 4}

    workspace.config_file(tiny, "dev").write_text(
        workspace.config_file(tiny, "dev").read_text() + "config:\n  tiny:value: '2'\n"
    )
    planned = run("preview")
    steps = [e.step for e in planned.of_type(Started) if e.step.op == "update"]
    assert sorted(step.name for step in steps) == ["one", "two"]
    assert all(e.preview for e in planned.of_type(Started))
    assert file_store.read_state(NAME).resources[-1].inputs["value"] == "1"

    assert run("up").outcome.summary.changes == {"same": 2, "update": 2}  # type: ignore[union-attr]
    assert run("refresh").outcome.result == "succeeded"
    gone = run("destroy")
    assert {e.step.op for e in gone.of_type(Finished)} == {"delete"}
    assert file_store.read_state(NAME).resources == ()


@pytest.mark.thorough
def test_a_run_has_durations_and_program_output_and_writes_nothing_to_stderr(run: Runner) -> None:
    program = "print('hello'); pulumi.log.warn('careful'); Thing('slow', sleep=1); Thing('fast')"
    made = run("up", program=program)
    seconds = {event.step.name: event.seconds for event in made.of_type(Finished)}
    assert seconds["slow"] >= 0.9
    assert seconds["slow"] > seconds["fast"]
    # Printed and logged lines arrive in different kinds of events.
    assert {(d.severity, d.message.strip()) for d in made.of_type(Diagnostic)} == {
        ("info", "hello"),
        ("warning", "careful"),
    }
    assert made.outcome.stderr == ""


@pytest.mark.thorough
def test_a_failed_resource_keeps_the_others(run: Runner) -> None:
    failed = run("up", program="Thing('good'); Thing('bad', fail='no such thing')")
    assert [event.step.name for event in failed.of_type(Failed)] == ["bad"]
    assert [
        r.name for r in file_store.read_state(NAME).resources if r.id and not r.type.startswith("pulumi:")
    ] == ["good"]
    error = errors.error_of(failed.outcome)
    assert (error.what, error.where) == ("the resource's provider failed: RuntimeError: no such thing", "bad")
    again = run("up", program="Thing('good'); Thing('bad')")
    assert again.outcome.summary.changes == {"same": 2, "create": 1}  # type: ignore[union-attr]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("program", "message", "details", "code"),
    [
        ("Thing('bad', fail='ours')", "port 7000 is taken by alice. Choose another port (bad).", "", 1),
        ("raise pulumi.RunError('rl cannot run\\n  one\\n  two')", "rl cannot run.", "  one\n  two", 2),
        (
            "pulumi.CustomResource('random:index:Id', 'x', {})",
            'the Pulumi plugin random is not installed. Run `eval "$(symphony env)"; pulumi plugin install'
            " resource random`.",
            "",
            1,
        ),
    ],
    ids=["provider", "run-error", "plugin"],
)
def test_each_failure_is_one_line_with_its_exit_code(
    run: Runner, program: str, message: str, details: str, code: int
) -> None:
    error = errors.error_of(run("up", program=program).outcome)
    assert (error.line, "\n".join(error.details), error.exit_code) == (message, details, code)


@pytest.mark.thorough
def test_state_files_and_folders_are_private(run: Runner, own_home: Path, any_umask: int) -> None:
    run("up")
    assert os.umask(any_umask) == any_umask
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [own_home, *own_home.rglob("*")]}
    assert len(modes) > 10
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077} == {}


@pytest.mark.thorough
def test_different_stacks_run_concurrently(tiny: Workspace, engine: object) -> None:
    """A second run of the same stack is refused and names the first."""
    for stack in ("left", "right"):
        workspace.create_stack(tiny, stack)
    extra = {"TINY": "Thing('slow', sleep=8)"}
    with Run("up", tiny, "left", extra=extra) as left:
        for event in left:
            if isinstance(event, Started) and event.step.name == "slow":
                break
        with Run("up", tiny, "right", extra={"TINY": ""}) as right:
            assert [e for e in right if isinstance(e, Summary)]
        with pytest.raises(SymphonyError, match=r"left is being changed by \w+, pid \d+ on this machine"):
            Run("up", tiny, "left", extra=extra).__enter__()
        rest = list(left)
    assert right.outcome.result == left.outcome.result == "succeeded"
    assert any(isinstance(event, Finished) and event.step.name == "slow" for event in rest)


@pytest.mark.thorough
def test_a_wrong_passphrase_is_an_error(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "Thing('safe', value=pulumi.Output.secret('hush'))"
    run("up", program=secret)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "other")
    error = errors.error_of(run("up", program=secret).outcome)
    assert str(error).startswith("this passphrase does not decrypt the secrets of dev")
    assert error.exit_code == 2


def test_a_missing_passphrase_is_an_error(
    run: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path / 'elsewhere'}")
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE")
    with pytest.raises(SymphonyError, match=r"^the secrets of dev need a passphrase\."):
        run("up")


@pytest.mark.thorough
def test_the_default_state_folder_has_a_generated_passphrase(
    run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PULUMI_BACKEND_URL")
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE")
    assert run("up").outcome.result == "succeeded"


def test_an_unwritable_state_is_an_error(
    tiny: Workspace, engine: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path / 'file' / 'state'}")
    with pytest.raises(SymphonyError, match="the state cannot be written"):
        workspace.create_stack(tiny, "dev")
