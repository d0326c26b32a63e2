"""State read through the engine, as from stores that are not files, says the same as the files."""

from __future__ import annotations

import subprocess

import pytest

from symphony import paths
from symphony.engine import workspace
from symphony.engine.state import cloud_store, file_store, store
from symphony.engine.workspace import Workspace
from symphony.errors import SymphonyError
from tests.engine.support import Runner

NAME = file_store.StackName("tiny", "dev")


def test_same_as_the_files(run: Runner) -> None:
    run("up")
    assert cloud_store.names() == file_store.names() == [NAME]
    seen, direct = cloud_store.read(NAME), file_store.read(NAME)
    assert seen.resources == direct.resources
    assert seen.outputs() == {"answer": 42}
    with pytest.raises(KeyError):
        cloud_store.read(file_store.StackName("tiny", "other"))


def test_a_damaged_state_is_told_of_the_stack_that_was_asked(
    run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("up", program="")
    (file_store.root() / "stacks" / "tiny" / "dev.json").write_text("{")
    asked: list[list[str]] = []
    pulumi = workspace.pulumi

    def counting(place: Workspace, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        asked.append(arguments)
        return pulumi(place, arguments)

    monkeypatch.setattr(workspace, "pulumi", counting)
    # As in a bucket, whose files only the engine reads.
    monkeypatch.setattr(file_store, "is_files", lambda url=None: False)
    with pytest.raises(SymphonyError) as error:
        store.read(NAME)
    assert len(asked) == 1
    assert error.value.what == "the engine cannot load the state of dev"
    assert error.value.where == paths.store_url()
    assert str(NAME) in error.value.remedy


@pytest.mark.thorough
@pytest.mark.usefixtures("engine")
def test_store_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", "https://127.0.0.1:9")
    monkeypatch.setenv("PULUMI_ACCESS_TOKEN", "none")
    with pytest.raises(SymphonyError):
        store.names()
