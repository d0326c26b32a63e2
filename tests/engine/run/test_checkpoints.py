"""Checkpoints are skipped only if the state and the program have no resources but symphony's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from symphony.engine import workspace
from symphony.engine.run import checkpoints
from symphony.engine.run.events import Verb
from symphony.engine.run.run import Run
from symphony.engine.state import file_store
from symphony.engine.state.file_store import StackName
from symphony.engine.workspace import Workspace
from tests.engine.support import Runner

STACK = ("pulumi:pulumi:Stack", {})
WINDOW = ("pulumi-python:dynamic/symphony_tmux:Window", {"path": "a", "__provider": "x"})
POD = ("kubernetes:core/v1:Pod", {"metadata": {"labels": {"app.kubernetes.io/managed-by": "symphony"}}})
BUCKET = ("gcp:storage/bucket:Bucket", {})
OTHERS = [
    BUCKET,
    ("pulumi-python:dynamic/symphony_tmux_of_mine:Thing", {}),
    ("kubernetes:core/v1:Pod", {}),
    ("kubernetes:core/v1:Pod", {"metadata": {"labels": {"app.kubernetes.io/managed-by": "helm"}}}),
]
OURS = [STACK, ("symphony:index:Experiment", {}), WINDOW, POD, ("pulumi:providers:kubernetes", {})]


def recorded(*kinds: tuple[str, dict[str, Any]], pending: str = "") -> None:
    """Write the state of the stack `rl` of the project `mine`."""
    resources = [
        {"urn": f"urn:pulumi:rl::mine::{type_}::n{i}", "type": type_, "inputs": inputs, "outputs": inputs}
        for i, (type_, inputs) in enumerate(kinds)
    ]
    begun = (
        [{"type": "creating", "resource": {"urn": f"urn:pulumi:rl::mine::{pending}::p"}}] if pending else []
    )
    file = file_store.root() / "stacks" / "mine" / "rl.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    latest = {"resources": resources, "pending_operations": begun}
    file.write_text(json.dumps({"version": 3, "checkpoint": {"latest": latest}}))


def test_checkpoints_may_be_skipped_only_for_states_of_symphonys_resources() -> None:
    name = StackName("mine", "rl")
    assert checkpoints.may_be_skipped(env={}, name=name), "there is none yet"
    recorded(*OURS)
    assert checkpoints.may_be_skipped(env={}, name=name)
    recorded(*OURS, pending=f"symphony:index:Process${WINDOW[0]}")
    assert checkpoints.may_be_skipped(env={}, name=name)
    recorded(*OURS, pending=f"symphony:index:Process${BUCKET[0]}")
    assert not checkpoints.may_be_skipped(env={}, name=name)
    for other in OTHERS:
        recorded(*OURS, other)
        assert not checkpoints.may_be_skipped(env={}, name=name)
    (file_store.root() / "stacks" / "mine" / "rl.json").write_text("{")
    assert not checkpoints.may_be_skipped(env={}, name=name)


TRACE = """
import os
from pathlib import Path
kept = os.environ.get("PULUMI_SKIP_CHECKPOINTS") != "true"
with Path("trace").open("a") as file:
    print("with" if kept else "without", file=file)
"""
COMPONENT = "pulumi.ComponentResource('a:b:C', 'c')"


@pytest.fixture
def checkpoint_modes(
    tiny: Workspace, run: Runner, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[str]]:
    """Return a function that runs `up` and returns "with" or "without" for each engine run."""
    monkeypatch.delenv(checkpoints.VARIABLE)

    def runner(program: str, verb: Verb = "up", **more: Any) -> list[str]:
        trace = tiny.folder / "trace"
        trace.unlink(missing_ok=True)
        outcome = run(verb, program=TRACE + program, **more).outcome
        assert outcome.result == "succeeded", outcome
        return trace.read_text().split()

    return runner


def test_a_program_with_only_symphonys_resources_runs_without_checkpoints(
    checkpoint_modes: Callable[..., list[str]],
) -> None:
    assert checkpoint_modes(COMPONENT) == ["without"]


@pytest.mark.thorough
def test_a_program_with_other_resources_restarts_with_checkpoints_and_creates_them_once(
    checkpoint_modes: Callable[..., list[str]], tiny: Workspace
) -> None:
    program = f"{COMPONENT}; Thing('x')"
    assert checkpoint_modes(program, "preview") == ["with"], "a preview never skips them: one run"
    assert checkpoint_modes(program) == ["without", "with"]
    types = [each.type for each in file_store.read_state(StackName(tiny.project, "dev")).resources]
    assert types.count("pulumi-python:dynamic/tiny_provider:Thing") == 1
    assert checkpoint_modes(program) == ["with"], "the state knows of it"


@pytest.mark.thorough
def test_the_run_without_checkpoints_creates_no_other_resource(
    tiny: Workspace, run: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(checkpoints.VARIABLE)
    monkeypatch.setattr(Run, "_again", lambda self: iter(()))
    mark = tmp_path / "mark"
    hidden = "import importlib; importlib.import_module('tiny' + '_provider')"
    ran = run("up", program=f"{hidden}.Thing('x', mark={str(mark)!r})")
    assert ran.outcome.result == "failed"
    assert not mark.exists()


@pytest.mark.thorough
def test_the_users_environment_variable_overrides_checkpoints(
    checkpoint_modes: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(checkpoints.VARIABLE, "true")
    assert checkpoint_modes("Thing('x')") == ["without"]


def skips(verb: Verb, **more: Any) -> bool:
    place = workspace.Workspace(Path(), "mine", Path())
    return checkpoints.VARIABLE in Run(verb, place, "rl", **more)._engine()[1]


def test_up_and_destroy_skip_checkpoints_but_preview_and_cloud_states_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert skips("up")
    assert skips("destroy")
    assert skips("up", program=print)
    assert not skips("preview")
    monkeypatch.setenv("PULUMI_BACKEND_URL", "gs://bucket")
    assert not skips("up")
