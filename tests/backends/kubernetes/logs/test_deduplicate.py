"""What is remembered of a log: enough to tell no line twice, and never much."""

from __future__ import annotations

from symphony.backends.kubernetes.logs import deduplicate
from symphony.backends.kubernetes.logs.deduplicate import LogDeduplicator


def stamp(second: int, nano: int = 0) -> str:
    return f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}.{nano:09d}Z"


def test_a_line_is_told_once_whatever_its_time() -> None:
    lines = LogDeduplicator()
    for second in (1, 3, 2, 4):
        assert lines.add(stamp(second), "x")
        assert not lines.add(stamp(second), "x")
        assert lines.add(stamp(second), "y")
    assert not lines.add(stamp(1), "x")


def test_what_is_remembered_of_a_long_log_is_its_last_second() -> None:
    lines = LogDeduplicator()
    for second in range(200):
        for nano in range(100):
            lines.add(stamp(second, nano), "x")
            lines.tidy()
    assert len(lines) <= 1100
    assert not lines.add(stamp(199, 0), "x")


def test_one_long_second_is_remembered_in_part() -> None:
    lines = LogDeduplicator()
    for nano in range(3 * deduplicate.MOST):
        lines.add(stamp(1, nano), "x")
        lines.tidy()
    assert len(lines) <= 2 * deduplicate.MOST
    assert not lines.add(stamp(1, 2 * deduplicate.MOST), "x")
