"""How `up` turns engine events into lines, which plugins it fetches, and its last line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from symphony.backends.kubernetes import observe
from symphony.backends.observe import ProcessStatus
from symphony.engine import workspace
from symphony.engine.run.events import Diagnostic, Failed, Step
from symphony.engine.state.file_store import StackName
from symphony.errors import SymphonyError, UserError
from symphony.operations import selected_stack, stacks
from symphony.operations.plan import Planned
from symphony.operations.up import (
    Ended,
    Progress,
    Remark,
    _progress_or_remark,
    _statuses_until_settled,
    _Times,
    path_of,
)
from symphony.plan.changes import Change

STACK = "urn:pulumi:rl::sandbox::"
EXPERIMENT = f"{STACK}symphony:index:Experiment"
OURS = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "symphony"}}}


@pytest.mark.parametrize(
    ("kind", "parent", "path"),
    [
        ("kubernetes:core/v1:Pod", f"{EXPERIMENT}$symphony:index:Process::learner", "learner"),
        ("kubernetes:core/v1:Pod", f"{EXPERIMENT}$symphony:index:ProcessGroup::agents", "agents"),
        ("aws:s3:Bucket", f"{EXPERIMENT}$symphony:index:Process::learner", ""),
        ("pulumi:providers:aws", f"{EXPERIMENT}$symphony:index:Process::learner", ""),
        (
            "pulumi-python:dynamic/symphony_tmux:Window",
            f"{EXPERIMENT}$symphony:index:ProcessGroup$symphony:index:Process::agents/agent-0",
            "agents/agent-0",
        ),
        ("kubernetes:core/v1:Service", f"{EXPERIMENT}::rl", ""),
        ("symphony:index:Process", f"{EXPERIMENT}$symphony:index:ProcessGroup::agents", ""),
        ("aws:s3:Bucket", f"{STACK}pulumi:pulumi:Stack::sandbox-rl", ""),
        ("kubernetes:core/v1:Pod", "", ""),
    ],
)
def test_a_resource_is_reported_under_its_parent_process_or_group(kind: str, parent: str, path: str) -> None:
    inputs = OURS if kind.startswith("kubernetes:") else {}
    assert path_of(Step("urn", kind, "create", parent, new=inputs)) == path


def test_unchanged_processes_and_groups_are_counted() -> None:
    kinds = {"a": "keep", "b": "stop", "g/a": "keep", "g/b": "keep", "h/a": "keep", "h/b": "restart"}
    changes = tuple(Change(path, kind) for path, kind in kinds.items())  # pyright: ignore[reportArgumentType]
    assert Planned("rl", "lab", {}, changes, (), 6).kept == {"a", "g/a", "g/b", "g", "h/a"}


BEGUN = """Attempting to deploy or update resources with 2 pending operations from previous deployment.
  * {first}, interrupted while creating
  * {second}, interrupted while updating
These resources are in an unknown state because the Pulumi CLI was interrupted while waiting for changes to
these resources to complete. For example, if you are using AWS, you can confirm using the AWS Console.
"""


@pytest.mark.parametrize(
    ("second", "then"),
    [
        (f"{EXPERIMENT}$symphony:index:Process$kubernetes:core/v1:Pod::b", "this run completes it"),
        (
            f"{STACK}gcp:storage/bucket:Bucket::b",
            '`eval "$(symphony env)"; pulumi refresh -s rl` repairs the state of b',
        ),
    ],
    ids=["ours", "foreign"],
)
def test_pending_operations_of_an_interrupted_run_are_one_line(second: str, then: str) -> None:
    message = BEGUN.format(first=f"{EXPERIMENT}$symphony:index:Process::a", second=second)
    result = _progress_or_remark(Diagnostic("warning", message, ""))
    assert result == Remark(f"an earlier run was interrupted at a, b: {then}")
    assert _progress_or_remark(Diagnostic("warning", "careful\n", "")) == Remark("careful")


POD = "urn:pulumi:rl::lab::symphony:index:Experiment$symphony:index:Process$kubernetes:core/v1:Pod::a"


def test_a_warning_about_a_resource_names_its_process() -> None:
    assert _progress_or_remark(Diagnostic("warning", "careful", POD)) == Remark("a: careful")
    assert (
        _progress_or_remark(Diagnostic("warning", "Failed: Error: ErrImagePull", POD, ephemeral=True)) is None
    )
    assert (
        _progress_or_remark(Diagnostic("warning", "configured Kubernetes cluster is unreachable: x", POD))
        is None
    )


@pytest.mark.parametrize(
    ("setting", "fetched"),
    [
        ("", False),
        ("symphony:backend: tmux", False),
        ("symphony:backend: kubernetes", True),
        ("symphony:backend: kube", True),
        ("symphony:backend: no-such-backend", False),
        ("symphony:backend: {secure: abc}", False),
    ],
)
def test_plugins_are_fetched_only_for_backends_that_need_them(
    tmp_path: Path, setting: str, fetched: bool
) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: sandbox\nruntime: python\n")
    (tmp_path / "Pulumi.rl.yaml").write_text(f"config:\n  {setting}\n")
    place = workspace.load(tmp_path / "Pulumi.yaml")
    selected = selected_stack.SelectedStack(StackName("sandbox", "rl"), place)
    assert selected_stack.fetches_plugins(selected) is fetched


def test_overrides_of_a_script_take_precedence_over_settings(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: sandbox\nruntime: python\n")
    (tmp_path / "Pulumi.rl.yaml").write_text(
        "config:\n  kubernetes:kubeconfig: /old.yaml\n  kubernetes:context: a\n"
    )
    place = workspace.load(tmp_path / "Pulumi.yaml")
    read = observe.connection_settings
    for result, kubeconfig in (({}, "/old.yaml"), ({"kubernetes:kubeconfig": "/new.yaml"}, "/new.yaml")):
        selected = selected_stack.SelectedStack(StackName("sandbox", "rl"), place, result)
        assert read(selected.settings.config, place.folder) == {"kubeconfig": kubeconfig, "context": "a"}


def test_up_reports_an_experiment_that_it_started_but_cannot_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the program knows the kubeconfig."""

    def watch(recorded: object, patience: float) -> Iterator[tuple[ProcessStatus, ...]]:
        yield ()
        raise UserError("there is no kubeconfig", where="/nowhere", remedy="Name one")

    observer = SimpleNamespace(watch=watch)
    stack = SimpleNamespace(
        recorded=object(), backend="kubernetes", display_name="rl", observer=lambda: observer
    )
    monkeypatch.setattr(stacks, "read", lambda name: stack)
    selected = selected_stack.SelectedStack(
        StackName("sandbox", "rl"), workspace.Workspace(Path(), "sandbox", Path())
    )
    seen = _statuses_until_settled(selected, 60)
    assert next(seen) == ()
    with pytest.raises(SymphonyError) as error:
        next(seen)
    assert all(
        word in error.value.line for word in ("rl was started", "no kubeconfig", "/nowhere", "Name one")
    )
    assert error.value.exit_code == 1


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (["running", "running"], "rl is up: 2 of 2 running, in"),
        (["running", "failed", "waiting"], "rl: 1 of 3 running, 1 failed, 1 waiting, in"),
        (["completed", "running"], "rl is up: 1 of 2 running, 1 completed, in"),
        (["completed", "completed"], "rl has completed: 2 of 2, in"),
        (["completed", "failed"], "rl: 0 of 2 running, 1 completed, 1 failed, in"),
    ],
)
def test_the_last_line_of_up_counts_states(states: list[Any], words: str) -> None:
    result = tuple(ProcessStatus(str(n), state, ready=state == "running") for n, state in enumerate(states))
    assert str(Ended("rl", result, 1.0)) == f"{words} 1.0 s."


def test_a_process_that_is_not_ready_is_mentioned_but_no_failure() -> None:
    ended = Ended("rl", (ProcessStatus("a", "running", ready=False, why="port 1: not listening yet"),), 1.0)
    assert "1 not ready" in str(ended)
    assert not ended.troubled


def test_the_longest_chain_ends_at_the_process_ready_last() -> None:
    times = _Times(0.0)

    def status(path: str, ready: bool, *waits: str) -> ProcessStatus:
        return ProcessStatus(path, "running" if ready or not waits else "waiting", ready, waits_for=waits)

    times.see((status("a", False), status("b", False, "a (ready)"), status("c", True)), 1.0)
    times.see((status("a", True), status("b", False, "a (ready)"), status("c", True)), 41.0)
    times.see((status("a", True), status("b", True), status("c", True)), 44.0)
    assert times.longest_chain() == (("a", 41.0), ("b", 3.0))


def test_the_longest_chain_has_a_process_that_was_ready_with_the_one_it_waited_for() -> None:
    times = _Times(0.0)
    waiting = ProcessStatus("b", "waiting", ready=False, waits_for=("a (ready)",))
    times.see((ProcessStatus("a", "running", ready=False), waiting), 1.0)
    times.see((ProcessStatus("a", "running", ready=True), ProcessStatus("b", "running", ready=True)), 41.0)
    assert times.longest_chain() == (("a", 41.0), ("b", 0.0))


def test_an_interrupted_process_is_not_reported_as_failed() -> None:
    parent = "urn:pulumi:rl::lab::symphony:index:Experiment$symphony:index:Process::a"
    event = Failed(Step(POD, "kubernetes:core/v1:Pod", "create", parent, new=OURS))
    line = _progress_or_remark(event, {POD})
    assert isinstance(line, Remark)
    assert "a: interrupted" in line.text
    assert _progress_or_remark(event) == Progress("a", "failed")
