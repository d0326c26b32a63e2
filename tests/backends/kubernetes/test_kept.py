"""The lines that are kept when there are more than are kept: always the newest, and at no needless cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from symphony.backends.kubernetes.logs import kept
from symphony.backends.kubernetes.logs.kept import Kept, Shelf

LINES = [Kept("u", f"2026-01-01T00:{n // 60:02d}:{n % 60:02d}.{n:09d}Z", f"n {n}") for n in range(400)]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMPHONY_HOME", str(tmp_path))
    monkeypatch.setattr(kept, "MOST", 8_000)


def shelf() -> Shelf:
    return Shelf("o", "n", "a.a")


def read(lines: list[Kept]) -> list[Kept]:
    """A command that reads these lines; what is on the shelf after it."""
    mine = shelf()
    known = set(mine.lines())
    for line in lines:
        if line not in known:
            mine.add(line)
    return shelf().lines()


def file() -> Path:
    return kept.folder("o", "n") / "a.a"


def test_the_newest_lines_stay_however_often_all_are_read() -> None:
    for _ in range(4):
        assert read(LINES)[-50:] == LINES[-50:]
        assert file().stat().st_size <= kept.MOST + 200


def test_reading_again_what_was_cut_off_writes_nothing() -> None:
    read(LINES)
    before = file().stat()
    read(LINES)
    after = file().stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


def test_what_is_new_is_kept_after_a_cut() -> None:
    read(LINES[:300])
    assert read(LINES)[-100:] == LINES[300:]


def test_the_newest_stay_when_they_were_read_first() -> None:
    read(LINES[-50:])
    assert set(LINES[-50:]) <= set(read(LINES))


def test_lines_of_an_older_pod_do_not_come_back_and_push_the_newest_out() -> None:
    older = [Kept("v", line.stamp, line.text) for line in LINES[:200]]
    for _ in range(3):
        assert read([*older, *LINES[200:]])[-50:] == LINES[-50:]


def test_an_end_stays_with_the_last_words_of_its_second() -> None:
    end = Kept("u", "2026-01-01T00:06:39Z", "ended: exit 5", ended=True)
    assert set(read([*LINES, end])[-2:]) == {LINES[-1], end}
    assert set(read([*LINES, end])[-2:]) == {LINES[-1], end}


def test_one_line_that_is_larger_than_the_shelf_goes() -> None:
    huge = Kept("u", LINES[0].stamp, "x" * 9_000)
    assert read([huge, *LINES[1:10]]) == LINES[1:10]


def test_a_file_of_rubbish_is_replaced() -> None:
    read(LINES[:1])
    file().write_bytes(b"\xff\n" * 5_000)
    assert read(LINES[:1]) == []
    assert read(LINES[:2]) == LINES[1:2]
