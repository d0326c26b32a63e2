"""What `up` makes of the engine's events: which process a resource belongs to, when plugins are fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from symphony.engine import workspace
from symphony.engine.events import ResourceState, Step
from symphony.engine.store import StackName
from symphony.operations import targets
from symphony.operations.up import path_of

STACK = "urn:pulumi:rl::desk::"
EXPERIMENT = f"{STACK}symphony:index:Experiment"


def step(kind: str, parent: str, *, old: bool = False) -> Step:
    state = ResourceState("urn", kind, "", parent, {}, {})
    return Step("urn", kind, "create", **{"old" if old else "new": state})


@pytest.mark.parametrize(
    ("kind", "parent", "path"),
    [
        ("kubernetes:core/v1:Pod", f"{EXPERIMENT}$symphony:index:Process::learner", "learner"),
        ("kubernetes:core/v1:Pod", f"{EXPERIMENT}$symphony:index:ProcessGroup::agents", "agents"),
        (
            "pulumi-python:dynamic/symphony_tmux:Window",
            f"{EXPERIMENT}$symphony:index:ProcessGroup$symphony:index:Process::agents/agent-0",
            "agents/agent-0",
        ),
        ("kubernetes:core/v1:Service", f"{EXPERIMENT}::rl", ""),
        ("symphony:index:Process", f"{EXPERIMENT}$symphony:index:ProcessGroup::agents", ""),
        ("aws:s3:Bucket", f"{STACK}pulumi:pulumi:Stack::desk-rl", ""),
        ("kubernetes:core/v1:Pod", "", ""),
    ],
)
@pytest.mark.parametrize("old", [False, True], ids=["made", "deleted"])
def test_a_resource_belongs_to_the_process_or_group_it_hangs_under(
    kind: str, parent: str, path: str, old: bool
) -> None:
    assert path_of(step(kind, parent, old=old)) == path


def test_a_step_without_a_state_belongs_to_none() -> None:
    assert path_of(Step("urn", "kubernetes:core/v1:Pod", "refresh")) == ""


@pytest.mark.parametrize(
    ("said", "fetched"),
    [
        ("", False),
        ("symphony:backend: tmux", False),
        ("symphony:backend: kubernetes", True),
        ("symphony:backend: kube", True),
        ("symphony:backend: no-such-world", False),
        ("symphony:backend: {secure: abc}", False),
    ],
)
def test_plugins_are_fetched_only_for_worlds_that_need_them(tmp_path: Path, said: str, fetched: bool) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: desk\nruntime: python\n")
    (tmp_path / "Pulumi.rl.yaml").write_text(f"config:\n  {said}\n")
    place = workspace.load(tmp_path / "Pulumi.yaml")
    assert targets.fetches_plugins(targets.Target(StackName("desk", "rl"), place)) is fetched
