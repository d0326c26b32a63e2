"""The worlds the conformance suite runs in: another backend is a row in WORLDS and a file with its World."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.tmux_world import TmuxWorld
from tests.conformance.world import World
from tests.desk import desk_in

WORLDS = [pytest.param(TmuxWorld, id="tmux")]


@pytest.fixture(scope="module", params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world with a project of its own, shared by the tests of a file."""
    with desk_in(tmp_path_factory.mktemp("w"), "conformance") as desk:
        yield request.param(desk)
