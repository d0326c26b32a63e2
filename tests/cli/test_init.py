"""`symphony init` writes a project that runs at once, and touches no existing file."""

from __future__ import annotations

import pytest

from symphony.engine import workspace
from tests.sandbox import Sandbox, wait_for


def test_init_creates_a_project_that_runs_without_a_stack_name(sandbox: Sandbox) -> None:
    folder = sandbox.folder.parent / "Lab 7"
    folder.mkdir()
    made = sandbox.symphony("init", cwd=folder).out
    assert made.splitlines()[:3] == ["Pulumi.yaml", "__main__.py", ".gitignore"]
    assert "lab-7 is up: 3 of 3 running" in sandbox.symphony("up", "-y", cwd=folder).out
    wait_for(
        lambda: "200" in sandbox.symphony("logs", "client-0", cwd=folder).out, 20, "a client is answered"
    )
    sandbox.symphony("delete", "lab-7", "-y", cwd=folder)
    assert sandbox.trees() == {}


@pytest.mark.thorough
def test_init_stacks_keeps_settings_beside_the_programs(sandbox: Sandbox) -> None:
    folder = sandbox.folder.parent / "several"
    folder.mkdir()
    made = sandbox.symphony("init", "--stacks", cwd=folder).out
    assert made.splitlines()[:4] == ["Pulumi.yaml", "stacks/hello.py", ".gitignore", "__main__.py"]
    (folder / "stacks/Pulumi.hello.yaml").write_text("config:\n  symphony:namespace: other\n")
    assert sandbox.symphony("plan", "hello", "--json", cwd=folder).json["plan"]["launched_as"] == "other"
    assert not (folder / "Pulumi.hello.yaml").exists()


@pytest.mark.parametrize("file", ["Pulumi.yaml", "__main__.py"])
def test_init_refuses_a_folder_with_project_files(sandbox: Sandbox, file: str) -> None:
    folder = sandbox.folder.parent / "there"
    folder.mkdir()
    (folder / file).write_text("name: mine\nruntime: python\n")
    assert len(sandbox.symphony("init", cwd=folder, code=2).err.splitlines()) == 1
    assert [each.name for each in folder.iterdir()] == [file]


@pytest.mark.parametrize("name", ["2026-11-29", "2026", "null"])
def test_init_accepts_names_that_yaml_does_not_read_as_text(sandbox: Sandbox, name: str) -> None:
    folder = sandbox.folder.parent / name
    folder.mkdir()
    sandbox.symphony("init", cwd=folder)
    assert workspace.require(folder).project == name


@pytest.mark.parametrize("name", ["a/b", ".."])
def test_init_refuses_names_that_are_no_project(sandbox: Sandbox, name: str) -> None:
    folder = sandbox.folder.parent / "new"
    folder.mkdir()
    sandbox.symphony("init", name, cwd=folder, code=2)
    assert not [*folder.iterdir()]
