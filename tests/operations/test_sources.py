"""Which files `up --watch` watches."""

from __future__ import annotations

from pathlib import Path

import pytest

from symphony.components import code_inputs
from symphony.content import digests
from symphony.engine import workspace
from symphony.operations import sources
from symphony.operations.plan import Planned
from symphony_docker import context


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("Pulumi.yaml", "main.py", "agents/net.py", "app/Dockerfile", "app/code/a.py", "app/b.txt"):
        file = tmp_path / "project" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("name: lab\nruntime: python\n")
    (tmp_path / "project/app/.dockerignore").write_text("*.txt\nDockerfile\n")
    return tmp_path / "project"


def sources_of(folder: Path) -> sources.Sources:
    """Return the watched sources of a plan with declared code and an image."""
    image = {"context": str(folder / "app"), "dockerfile": "Dockerfile"}
    built = context.read(context.source_of(image)).digests
    parts = {"files": digests.of_all(built)}
    plan = {"processes": [{"code": ["agents/"]}], "images": [{"inputs": {**image, "parts": parts}}]}
    code = code_inputs.files_of(["agents/"], folder)["agents/"].files
    known = {"code": code, parts["files"]: built}
    program = {str(folder / "main.py"): str((folder / "main.py").stat().st_mtime_ns)}
    planned = Planned("rl", "lab", plan, (), (), 1, code=known, program=program, folder=str(folder))
    return sources.from_plan(workspace.load(folder / "Pulumi.yaml"), planned)


def test_unchanged_files_do_not_count_as_changed(folder: Path) -> None:
    before = sources_of(folder)
    assert before.now().state == before.state


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("agents/net.py", True), ("agents/new.py", True), ("main.py", True), ("Pulumi.yaml", True),
        ("app/code/a.py", True), ("app/code/new.py", True), ("app/Dockerfile", True), ("app/b.txt", False),
    ],
)  # fmt: skip
def test_changes_of_code_program_settings_and_image_files_count(
    folder: Path, name: str, counts: bool
) -> None:
    before = sources_of(folder)
    (folder / name).write_text("another")
    changed_names = digests.changed_names(before.state, before.now().state)
    assert [each.rpartition(f"{folder}/")[2] for each in changed_names] == ([name] if counts else [])
