"""What an `up` would do to each process, and why, in words."""

from __future__ import annotations

from typing import Any

import pytest

from symphony.plan.changes import Change, changes


def differing(old: Any, new: Any) -> list[str]:
    return [name for name in new if old.get(name) != new[name]]


def rows(recorded: Any, planned: Any, broken: Any = None) -> list[tuple[str, str, str]]:
    return [(row.path, row.kind, row.why) for row in changes(recorded, planned, differing, broken or {})]


def test_kinds_in_the_order_of_the_plan_and_then_what_stops():
    recorded = {"gone": {"args": []}, "same": {"args": []}, "other": {"args": ["a"]}}
    planned = {"other": {"args": ["b"]}, "new": {"args": []}, "same": {"args": []}}
    assert rows(recorded, planned) == [
        ("other", "restart", "args: a -> b"),
        ("new", "start", "new"),
        ("same", "keep", ""),
        ("gone", "stop", "no longer declared"),
    ]


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (["--lr", "1e-3"], ["--lr", "3e-4"], "args: --lr 1e-3 -> 3e-4"),
        (["a.py", "--lr", "1e-3", "-v"], ["a.py", "--lr", "3e-4", "-v"], "args: --lr 1e-3 -> 3e-4"),
        (["--lr", "1"], ["--lr", "1", "-v"], "args: 1 nothing -> -v"),
        (["--lr", "1", "-v"], ["--lr", "1"], "args: 1 -v -> nothing"),
        (["a"], ["b"], "args: a -> b"),
        (["a", "a"], ["a"], "args: a a -> nothing"),
        (None, ["a", "b"], "args: nothing -> a b"),
        (["a", "b"], None, "args: a b -> nothing"),
        (["x" * 100], ["b"], f"args: {'x' * 59}… -> b"),
        (["a\n\x1b[2J"], ["b"], r"args: a\n\x1b[2J -> b"),
        ("/a", "/b", "args: /a -> /b"),
        (None, "/b", "args: nothing -> /b"),
        ("", "/b", "args: nothing -> /b"),
        (1, 2, "args: 1 -> 2"),
        ({"A": "1", "B": "2"}, {"A": "2", "C": "3", "B": "2"}, "args: A, C"),
        (None, {"A": "secret"}, "args: A"),
        ({"A": "secret"}, None, "args: A"),
    ],
)
def test_why(before, after, why):
    assert rows({"a": {"args": before}}, {"a": {"args": after}}) == [("a", "restart", why)]


def test_values_of_variables_are_not_shown():
    (row,) = rows({"a": {"env": {"TOKEN": "old"}}}, {"a": {"env": {"TOKEN": "new"}}})
    assert row[2] == "env: TOKEN"


def test_several_reasons_and_a_broken_process():
    recorded = {"a": {"args": ["1"], "cwd": "/a"}, "b": {}}
    planned = {"a": {"args": ["2"], "cwd": "/b"}, "b": {}}
    assert rows(recorded, planned, {"a": "window closed", "b": "exit 1"}) == [
        ("a", "restart", "window closed; args: 1 -> 2; cwd: /a -> /b"),
        ("b", "restart", "exit 1"),
    ]


def test_as_json():
    assert Change("a", "keep").to_json() == {"path": "a", "kind": "keep", "why": ""}
