"""Names that a user types: whole, as the backend spells them, without their group, then a part."""

from __future__ import annotations

import pytest

from symphony.errors import UserError
from symphony.operations.stacks import match, match_processes

PATHS = ("agent-0-old", "agents/agent-0", "server", "eval/server-2")


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("agent_0", "agents/agent-0"),
        ("agent-0", "agents/agent-0"),
        ("Server", "server"),
        ("agents/agent_0", "agents/agent-0"),
        ("agent-0-o", "agent-0-old"),
        ("-2", "eval/server-2"),
    ],
)
def test_the_nearest_way_of_saying_it_wins(given: str, path: str) -> None:
    assert match(given, PATHS, "process") == path


def test_several_are_an_error_that_names_them() -> None:
    with pytest.raises(UserError, match="a/w-0, b/w-0"):
        match("w_0", ["a/w-0", "b/w-0"], "process")
    with pytest.raises(UserError, match="agent-0-old, agents/agent-0"):
        match("agen", PATHS, "process")


def test_the_nearest_name_is_in_the_error() -> None:
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
def test_groups_and_patterns(words: list[str], paths: list[str]) -> None:
    assert match_processes(words, PATHS) == paths
