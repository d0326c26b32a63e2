"""The plan lists secret and config files that differ from those of the running experiment."""

from __future__ import annotations

from pathlib import Path

from symphony.backends.local_files import changes


def test_changed_added_and_removed_files_are_listed(tmp_path: Path) -> None:
    for name in ("same", "other", "new"):
        (tmp_path / name).write_bytes(name.encode())
    files = [str(tmp_path / name) for name in ("same", "other", "new", "missing")]
    recorded = {"same": b"same", "other": b"before", "gone": b"", "missing": b"x"}
    result = list(changes("secret", files, recorded))
    assert result == [
        "secret other changed",
        "secret new added",
        "secret gone removed",
    ]
