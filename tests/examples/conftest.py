"""A clone of the root project, in which the tests of the examples run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox import Sandbox, clone_in, sandbox_in


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """The root project, as a clone would have it."""
    with sandbox_in(tmp_path, folder=clone_in(tmp_path)) as made:
        yield made
