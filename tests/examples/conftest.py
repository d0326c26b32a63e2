"""What the tests of the examples share: a clone of the root project to run them in."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import ROOT, Desk, desk_in


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """The root project, as a clone would have it."""
    folder = tmp_path / "clone"
    for part in ("stacks", "examples"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "Pulumi.*"))
    for part in ("Pulumi.yaml", "__main__.py"):
        shutil.copy(ROOT / part, folder / part)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    with desk_in(tmp_path, folder=folder) as made:
        yield made
