"""Files that symphony writes."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from symphony import files


def test_a_failed_write_names_its_file(tmp_path: Path) -> None:
    """The error of a write names no file, so the message did not say which disk was full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, hard))
    try:
        with pytest.raises(OSError, match=f"File too large: '{tmp_path}/"):
            files.replace(tmp_path / "a", b"more than eight bytes")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("damage", [Path.mkdir, lambda lock: lock.symlink_to("nowhere"), Path.touch])
def test_a_damaged_lock_file_is_made_again(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """A process of an experiment can put them there; they blocked every command."""
    lock = tmp_path / "ports.lock"
    damage(lock)
    if lock.is_file():
        lock.chmod(0)
    with files.locked(lock, seconds=1, what="the lock"):
        assert lock.is_file()
