"""A line that the server sends again is told once, and of a long log little is remembered."""

from __future__ import annotations

from symphony.backends.kubernetes.logs.deduplicate import LogDeduplicator


def stamp(second: int, nano: int = 0) -> str:
    return f"2026-01-01T00:00:{second:02d}.{nano:09d}Z"


def test_the_lines_of_the_last_second_are_told_once() -> None:
    lines = LogDeduplicator()
    for second in (1, 3, 2, 4):
        assert lines.add(stamp(second), "x")
        assert not lines.add(stamp(second), "x")
        assert lines.add(stamp(second), "y")


def test_lines_before_the_last_ones_that_were_asked_for_are_not_told() -> None:
    lines = LogDeduplicator()
    assert lines.add(stamp(1, 500), "x")
    assert not lines.add(stamp(1, 400), "older")
    assert lines.add(stamp(1, 600), "newer")
