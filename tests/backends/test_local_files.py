"""Files that differ from what the running experiment has are named."""

from __future__ import annotations

from pathlib import Path

from symphony.backends.local_files import changes


def test_each_change_is_named(tmp_path: Path) -> None:
    for name in ("same", "other", "new"):
        (tmp_path / name).write_bytes(name.encode())
    files = [str(tmp_path / name) for name in ("same", "other", "new", "missing")]
    there = {"same": b"same", "other": b"before", "gone": b"", "missing": b"x"}
    result = list(changes("secret", files, there))
    assert result == [
        "secret other changed",
        "secret new added",
        "secret gone removed",
    ]
