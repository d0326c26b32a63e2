"""Checkpoints are left out only where all is ours: the recorded state, and what the program can make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from symphony.engine import workspace
from symphony.engine.run.inline import InlineRun
from symphony.engine.run.run import Run
from symphony.engine.state import file_store
from symphony.engine.state.file_store import StackName
from symphony.engine.tuning import checkpoints

STACK = ("pulumi:pulumi:Stack", {})
WINDOW = ("pulumi-python:dynamic/symphony_tmux:Window", {"path": "a"})
POD = ("kubernetes:core/v1:Pod", {"metadata": {"labels": {"app.kubernetes.io/managed-by": "symphony"}}})
BUCKET = ("gcp:storage/bucket:Bucket", {})
OURS = [STACK, ("symphony:index:Experiment", {}), WINDOW, POD, ("pulumi:providers:kubernetes", {})]


@pytest.mark.parametrize("kind", OURS)
def test_ours(kind: tuple[str, dict[str, Any]]) -> None:
    assert checkpoints.is_ours(*kind)


@pytest.mark.parametrize(
    ("type_", "inputs"),
    [
        BUCKET,
        ("pulumi-python:dynamic/bucket:Bucket", {}),
        ("pulumi-python:dynamic/symphony_tmux_of_mine:Thing", {}),
        ("kubernetes:core/v1:Pod", {}),
        ("kubernetes:core/v1:Pod", {"metadata": {"labels": {"app.kubernetes.io/managed-by": "helm"}}}),
        ("kubernetes:core/v1:Pod", {"metadata": "x"}),
    ],
)
def test_not_ours(type_: str, inputs: dict[str, Any]) -> None:
    assert not checkpoints.is_ours(type_, inputs)


def recorded(*kinds: tuple[str, dict[str, Any]], pending: str = "") -> None:
    """The state of the stack `rl` of the project `mine`."""
    resources = [
        {"urn": f"urn:pulumi:rl::mine::{type_}::n{i}", "type": type_, "inputs": inputs}
        for i, (type_, inputs) in enumerate(kinds)
    ]
    begun = (
        [{"type": "creating", "resource": {"urn": f"urn:pulumi:rl::mine::{pending}::p"}}] if pending else []
    )
    file = file_store.root() / "stacks" / "mine" / "rl.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    latest = {"resources": resources, "pending_operations": begun}
    file.write_text(json.dumps({"version": 3, "checkpoint": {"latest": latest}}))


def test_states() -> None:
    name = StackName("mine", "rl")
    assert checkpoints.holds_only_ours(name), "there is none yet"
    recorded(*OURS)
    assert checkpoints.holds_only_ours(name)
    recorded(*OURS, pending=f"symphony:index:Process${WINDOW[0]}")
    assert checkpoints.holds_only_ours(name)
    recorded(*OURS, pending=f"symphony:index:Process${BUCKET[0]}")
    assert not checkpoints.holds_only_ours(name)
    recorded(*OURS, BUCKET)
    assert not checkpoints.holds_only_ours(name)
    (file_store.root() / "stacks" / "mine" / "rl.json").write_text("{")
    assert not checkpoints.holds_only_ours(name)


DISPATCHER = 'from symphony import run_program\n\nrun_program("stacks")\n'
EXPERIMENT = 'import pulumi\nfrom symphony import Experiment\nwith Experiment() as e: e.new_process("a")\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    (folder / "stacks").mkdir(parents=True)
    (folder / "Pulumi.yaml").write_text("name: mine\nruntime: python\n")
    (folder / "__main__.py").write_text(DISPATCHER)
    (folder / "stacks" / "rl.py").write_text(EXPERIMENT)
    return folder


def may_skip(folder: Path, verb: Any = "up", stack: str = "rl", **more: Any) -> bool:
    run = Run(verb, workspace.load(folder / "Pulumi.yaml"), stack)
    run.keep_checkpoints = more.get("keep", False)
    return run._may_skip_checkpoints()


@pytest.mark.parametrize(
    "text", [DISPATCHER, "import symphony\nsymphony.run_program()\n", "run_program('stacks')"]
)
def test_a_project_with_the_dispatcher(project: Path, text: str) -> None:
    (project / "__main__.py").write_text(text)
    assert may_skip(project)
    assert may_skip(project, stack="rl.gke")
    assert not may_skip(project, keep=True)
    assert not may_skip(project, stack="no-such-program")
    (project / "Pulumi.other.yaml").write_text("config: {'symphony:program': rl}")
    assert may_skip(project, stack="other")


@pytest.mark.parametrize("text", [EXPERIMENT, "# run_program('stacks')\n", ""])
def test_a_project_of_another_form(project: Path, text: str) -> None:
    (project / "__main__.py").write_text(text)
    assert not may_skip(project)
    assert may_skip(project, "destroy"), "it runs no program"


@pytest.mark.parametrize(
    "line",
    [
        "import pulumi_gcp as gcp",
        "from buckets import Bucket",
        "from .buckets import Bucket",
        "(",
        "import pulumi.dynamic",
        "from pulumi import dynamic",
        "pulumi.CustomResource('a:b:C', 'c')",
    ],
)
def test_a_program_that_makes_more(project: Path, line: str) -> None:
    (project / "stacks" / "rl.py").write_text(f"{line}\n{EXPERIMENT}")
    assert not may_skip(project)


def test_a_state_that_holds_more(project: Path) -> None:
    recorded(*OURS, BUCKET)
    assert not may_skip(project)
    assert not may_skip(project, "destroy")


def test_a_plain_script_makes_nothing_else(project: Path) -> None:
    place = workspace.load(project / "Pulumi.yaml")
    (project / "__main__.py").unlink()
    assert InlineRun("up", place, "rl", program=print)._may_skip_checkpoints()
    recorded(BUCKET)
    assert not InlineRun("up", place, "rl", program=print)._may_skip_checkpoints()


def test_only_file_stores_have_any(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", "gs://bucket")
    assert not may_skip(project)
