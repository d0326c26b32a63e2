"""Which stack a command selects in a project: the only running one, the only program, or the current one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from msgspec.structs import replace

from symphony.engine.state.file_store import StackName
from symphony.errors import UserError
from symphony.operations import selected_stack
from symphony.operations.stacks import Stack
from tests.sandbox import Sandbox


def test_the_only_program_of_a_project_is_selected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: sandbox\nruntime: python\n")
    (tmp_path / "__main__.py").touch()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "rl.py").touch()
    (tmp_path / "stacks" / "_shared.py").touch()
    assert selected_stack.select(None).name.stack == "rl"
    assert selected_stack.names_here() == ["rl"]


@pytest.mark.parametrize(("file", "remedy"), [("rl.py", "Write rl"), ("train.py", "__main__.py")])
def test_the_name_of_a_file_is_no_name_of_a_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, remedy: str
) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: sandbox\nruntime: python\n")
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "rl.py").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as refused:
        selected_stack.select(file)
    assert remedy in refused.value.remedy


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes a project `lab` with stacks that were up once."""
    (tmp_path / "Pulumi.yaml").write_text("name: lab\nruntime: python\n")
    (tmp_path / "__main__.py").touch()
    monkeypatch.chdir(tmp_path)

    def make(stacks: list[str], live: Collection[str] = (), current: str = "") -> None:
        for name in stacks:
            (tmp_path / f"Pulumi.{name}.yaml").touch()
        names = [StackName("lab", name) for name in stacks]
        monkeypatch.setattr(selected_stack.store, "names", lambda: names)
        monkeypatch.setattr(selected_stack.stacks, "current", lambda: current)
        states = {name: Stack(StackName("lab", name), None, None, None) for name in live}
        monkeypatch.setattr(selected_stack, "_live", lambda _: states)

    return make


@pytest.mark.parametrize(
    ("stacks", "live", "current", "stack"),
    [
        (["lab"], {"lab"}, "", "lab"),
        (["lab", "lab.test"], {"lab", "lab.test"}, "", "lab"),
        (["lab", "lab.test"], {"lab", "lab.test"}, "organization/lab/lab.test", "lab.test"),
        (["lab", "lab.test"], {"lab.test"}, "", "lab.test"),
        ([], set(), "", "lab"),
        # With nothing up, that named after the project is selected, else the only one.
        (["lab", "prod"], set(), "", "lab"),
        (["lab.test"], set(), "", "lab"),
        (["dev"], set(), "", "dev"),
    ],
)
def test_without_a_name_the_running_current_or_only_stack_is_selected(
    project: Callable[..., None], stacks: list[str], live: set[str], current: str, stack: str
) -> None:
    project(stacks, live, current)
    assert selected_stack.select(None).name.stack == stack


def test_several_possible_stacks_are_an_error(project: Callable[..., None]) -> None:
    project(["dev", "prod"])
    with pytest.raises(UserError, match="several stacks are possible"):
        selected_stack.select(None)


@pytest.mark.thorough
def test_a_created_stack_is_removed_only_while_it_has_no_resources(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another command may start processes between the reading of the state and the removal."""
    sandbox.write('with Experiment() as e:\n    e.new_process("a", command=["sleep", "600"])')
    sandbox.symphony("up", "rl", "-y")
    for name, setting in sandbox.environment.items():
        monkeypatch.setenv(name, setting)
    monkeypatch.chdir(sandbox.folder)
    selected, read_state = selected_stack.select("rl"), selected_stack.file_store.read_state
    monkeypatch.setattr(
        selected_stack.file_store, "read_state", lambda name: replace(read_state(name), resources=())
    )
    selected_stack._remove(selected, None)
    assert sandbox.processes("rl")["a"]["state"] == "running"
