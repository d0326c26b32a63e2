"""Files that symphony writes."""

from __future__ import annotations

import resource
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
