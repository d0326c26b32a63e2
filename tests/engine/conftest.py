"""A tiny project with a component and a dynamic resource, and a function that runs the real engine on it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from symphony.engine import binary, workspace
from symphony.engine.run import checkpoints
from symphony.engine.run.events import Verb
from symphony.engine.run.run import Run
from symphony.engine.workspace import Workspace
from tests.engine.support import TINY, Ran, Runner


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """The project in its own folder; its resources are not symphony's, so it runs with checkpoints."""
    monkeypatch.setenv(checkpoints.VARIABLE, "false")
    folder = tmp_path / "tiny"
    shutil.copytree(TINY, folder)
    return workspace.load(folder / "Pulumi.yaml")


@pytest.fixture
def run(tiny: Workspace, engine: binary.Engine) -> Runner:
    """Return run("up", program="Thing('x')"), which runs to the end on the stack `dev`."""

    def runner(verb: Verb, *, program: str = "", stack: str = "dev", **more: Any) -> Ran:
        workspace.create_stack(tiny, stack)
        extra = {"TINY": program, **more.pop("extra", {})}
        with Run(verb, tiny, stack, extra=extra, **more) as started:
            events = list(started)
        return Ran(events, started.outcome)

    return runner
