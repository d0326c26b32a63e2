"""State read through the engine, as from stores that are not files, says the same as the files."""

from __future__ import annotations

import pytest

from symphony.engine.state import cloud_store, file_store, store
from symphony.errors import SymphonyError
from tests.engine.support import Runner

NAME = file_store.StackName("tiny", "dev")


def test_same_as_the_files(run: Runner) -> None:
    run("up")
    assert cloud_store.names() == file_store.names() == [NAME]
    seen, direct = cloud_store.read(NAME), file_store.read(NAME)
    assert seen.resources == direct.resources
    assert seen.outputs() == {"answer": 42}
    assert abs(seen.modified - direct.modified) < 5
    with pytest.raises(KeyError):
        cloud_store.read(file_store.StackName("tiny", "other"))


@pytest.mark.thorough
@pytest.mark.usefixtures("engine")
def test_store_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", "https://127.0.0.1:9")
    monkeypatch.setenv("PULUMI_ACCESS_TOKEN", "none")
    with pytest.raises(SymphonyError):
        store.names()
