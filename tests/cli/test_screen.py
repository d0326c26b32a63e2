"""Clean text and tables that line up."""

from __future__ import annotations

import os
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symphony.cli import screen


@given(st.text())
def test_clean_text_can_do_nothing_but_be_read(text: str) -> None:
    shown = screen.clean(text)
    assert all(not unicodedata.category(c).startswith("C") or c == "\ufffd" for c in shown)
    assert "\n" not in shown
    assert screen.clean(shown) == shown


@pytest.mark.parametrize("text", ["agent-0", "größe", "日本", "a b"])
def test_plain_text_stays(text: str) -> None:
    assert screen.clean(text) == text


def test_direction_marks_and_escapes_do_not_pass() -> None:
    assert screen.clean("a\u202eb\x1b]0;t\x07\tc\u200b") == "a\ufffdb\ufffd]0;t\ufffd c\ufffd"


def test_table_lines_up(capsys: pytest.CaptureFixture[str]) -> None:
    screen.show_table(
        ("name", "n", "state"), [("日本", 7, "ok"), ("rl", 12, ""), ("x\x1b[2J", 1, "a")], right=(1,)
    )
    assert capsys.readouterr().out.splitlines() == [
        "name    n  state",
        "日本    7  ok",
        "rl     12",
        "x\ufffd[2J   1  a",
    ]


@given(st.text(max_size=40), st.integers(0, 40))
def test_cut_fits(text: str, columns: int) -> None:
    shown = screen.cut(screen.clean(text), columns)
    assert screen.width(shown) <= max(columns, 1)


@pytest.mark.parametrize("columns", [200, 100, 60, 40])
def test_a_row_fits_breaks_between_words_and_keeps_its_name(columns: int) -> None:
    """The last columns shrink first, the name never."""
    row = [
        "+",
        "agent-of-the-longest-name",
        "start",
        "args: --lr 1e-3 -> 3e-4",
        "replay:7000 " * 5,
        "a b c " * 9,
    ]
    head = ["", "process", "change", "why", "binds", "connects"]
    lines = screen.wrapped(row, screen.fitted([head, row], columns))
    wide = max(sum(map(screen.width, line)) for line in screen.plain_table(head, lines))
    assert lines[0][1] == row[1]
    assert wide <= max(columns, 2 + 27 + 10 * 3 + 13)
    assert (lines == [row]) == (columns == 200)
    if columns == 100:
        words = [word for cells in zip(*lines, strict=True) for cell in cells for word in cell.split()]
        assert words == " ".join(row).split(), "whole words, in their order"


def test_what_is_too_narrow_for_its_words_loses_none_of_their_letters() -> None:
    head = ["group", "name", "ready", "restarts", "state"]
    row = ["", "learner-with-a-long-name", "0", "0", "failed: the configuration is missing"]
    widths = screen.fitted([head, row], 60)
    assert sum(widths) + 2 * 4 == 60
    states = [line[4] for line in screen.wrapped(row, widths)]
    assert "".join(states).replace(" ", "") == row[4].replace(" ", "")


def test_where_there_is_too_little_room_an_empty_column_leaves_its_own(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(screen, "is_terminal", lambda: True)
    monkeypatch.setattr(screen.os, "get_terminal_size", lambda _: os.terminal_size((30, 20)))
    monkeypatch.setenv("NO_COLOR", "1")
    screen.show_table(
        ("", "name", "why", "binds", "n"), [("~", "a", "its folder is gone", "", "1")], right=(4,)
    )
    assert capfd.readouterr().out.splitlines() == [
        "   name  why                 n",
        "~  a     its folder is gone  1",
    ]
