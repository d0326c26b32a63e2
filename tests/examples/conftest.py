"""What the tests of the examples share: a clone of the root project to run them in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import Desk, clone_in, desk_in


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """The root project, as a clone would have it."""
    with desk_in(tmp_path, folder=clone_in(tmp_path)) as made:
        yield made
