"""How the name that a user types selects a process: exactly, as the backend spells it, by a unique part."""

from __future__ import annotations

import pytest

from symphony.errors import UserError
from symphony.operations.stacks import match, match_processes

PATHS = ("agent-0-old", "agents/agent-0", "server", "eval/server-2")


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("agent_0", "agents/agent-0"),
        ("agent-0", "agents/agent-0"),
        ("Server", "server"),
        ("agents/agent_0", "agents/agent-0"),
        ("agent-0-o", "agent-0-old"),
        ("-2", "eval/server-2"),
    ],
)
def test_a_more_exact_match_wins(name: str, path: str) -> None:
    assert match(name, PATHS, "process") == path


def test_several_matches_are_an_error_that_lists_them() -> None:
    with pytest.raises(UserError, match="a/w-0, b/w-0"):
        match("w_0", ["a/w-0", "b/w-0"], "process")
    with pytest.raises(UserError, match="agent-0-old, agents/agent-0"):
        match("agen", PATHS, "process")


def test_the_error_for_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UserError) as raised:
        match("servr", PATHS, "process")
    assert '"server"' in raised.value.remedy


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        ([], [*PATHS]),
        (["agents"], ["agents/agent-0"]),
        (["agent*"], ["agent-0-old", "agents/agent-0"]),
        (["eval/*", "server"], ["server", "eval/server-2"]),
    ],
)
def test_groups_and_patterns_select_processes(words: list[str], paths: list[str]) -> None:
    assert match_processes(words, PATHS) == paths
