"""Text without control characters, and aligned tables."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symphony.cli import screen


@given(st.text())
def test_clean_removes_every_control_character(text: str) -> None:
    shown = screen.clean(text)
    assert all(not unicodedata.category(c).startswith("C") or c == "\ufffd" for c in shown)
    assert "\n" not in shown
    assert screen.clean(shown) == shown


@pytest.mark.parametrize("text", ["agent-0", "größe", "日本", "a b"])
def test_clean_keeps_plain_text(text: str) -> None:
    assert screen.clean(text) == text


def test_clean_replaces_direction_marks_and_escapes() -> None:
    assert screen.clean("a\u202eb\x1b]0;t\x07\tc\u200b") == "a\ufffdb\ufffd]0;t\ufffd c\ufffd"


def test_table_columns_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    screen.show_table(
        ("name", "n", "state"), [("日本", 7, "ok"), ("rl", 12, ""), ("x\x1b[2J", 1, "a")], right=(1,)
    )
    assert capsys.readouterr().out.splitlines() == [
        "name    n  state",
        "日本    7  ok",
        "rl     12",
        "x\ufffd[2J   1  a",
    ]


WIDE = ("", "process", "change", "why", "binds", "connects")
ROW = ["+", "agent-of-the-longest-name", "start", "args: --lr 1e-3 -> 3e-4", "replay:7000 " * 5, "a b c " * 9]


@pytest.mark.parametrize("columns", [200, 100, 80])
def test_a_long_row_wraps_between_words_and_keeps_its_name(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_terminal(monkeypatch, columns)
    screen.show_table(WIDE, [ROW])
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == [*WIDE[1:]]
    assert max(map(len, (head, *lines))) <= columns
    assert "agent-of-the-longest-name" in lines[0]
    assert (len(lines) == 1) == (columns == 200)
    letters = sorted("".join(lines).replace(" ", ""))
    assert letters == sorted("".join(ROW).replace(" ", "")), "no letter is lost"


def test_empty_columns_are_omitted_and_long_messages_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        ("~", "a", "its folder is gone", "", 1),
        ("", "b", screen.cut("0/12 nodes are available: " * 20), "", 12),
    ]
    screen.show_table(("", "name", "why", "binds", "n"), rows, right=(4,))
    plain = capsys.readouterr().out.splitlines()
    assert plain[0].split() == ["name", "why", "n"]
    assert max(map(len, plain)) < 140
    assert "\u2026" in plain[2]
    on_terminal(monkeypatch, 30)
    screen.show_table(("", "name", "why", "binds", "n"), rows[:1], right=(4,))
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "   name  why                 n",
        "~  a     its folder is gone  1",
    ]


def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    from rich.console import Console

    monkeypatch.setattr(screen, "is_terminal", lambda: True)
    monkeypatch.setattr(screen, "console", lambda: Console(width=columns, no_color=True, highlight=False))
