"""State read through the engine, as from a cloud backend."""

from __future__ import annotations

import subprocess

import pytest

from symphony import paths
from symphony.engine import workspace
from symphony.engine.state import file_store, store
from symphony.engine.workspace import Workspace
from symphony.errors import SymphonyError
from tests.engine.support import Runner

NAME = file_store.StackName("tiny", "dev")


@pytest.fixture
def read_through_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only the engine read the state files, as in a bucket."""
    monkeypatch.setattr(file_store, "is_files", lambda url=None: False)


@pytest.mark.thorough
def test_state_read_through_the_engine_equals_the_files(run: Runner, request: pytest.FixtureRequest) -> None:
    run("up")
    names, state = store.names(), store.read_state(NAME)
    request.getfixturevalue("read_through_engine")
    assert store.names() == names == [NAME]
    assert store.read_state(NAME).resources == state.resources
    assert store.read_state(NAME).resources[0].outputs == {"answer": 42}
    with pytest.raises(KeyError):
        store.read_state(file_store.StackName("tiny", "other"))


@pytest.mark.thorough
def test_a_damaged_state_read_through_the_engine_names_its_stack(
    run: Runner, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    run("up", program="")
    (file_store.root() / "stacks" / "tiny" / "dev.json").write_text("{")
    asked: list[list[str]] = []
    pulumi = workspace.pulumi

    def counting(place: Workspace, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        asked.append(arguments)
        return pulumi(place, arguments)

    monkeypatch.setattr(workspace, "pulumi", counting)
    request.getfixturevalue("read_through_engine")
    with pytest.raises(SymphonyError) as error:
        store.read_state(NAME)
    assert len(asked) == 1
    assert error.value.what == "the engine cannot load the state of dev"
    assert error.value.where == paths.store_url()
    assert str(NAME) in error.value.remedy


@pytest.mark.thorough
@pytest.mark.usefixtures("engine")
def test_an_unreachable_cloud_backend_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", "https://127.0.0.1:9")
    monkeypatch.setenv("PULUMI_ACCESS_TOKEN", "none")
    with pytest.raises(SymphonyError):
        store.names()
