"""Which name is meant: whole, as the backend spells it, as that of a member of a group, then by a part."""

from __future__ import annotations

import pytest

from symphony.operations.matching import AmbiguousError, match

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


def test_a_member_of_two_groups_is_asked_about() -> None:
    with pytest.raises(AmbiguousError, match="a/w-0, b/w-0"):
        match("w_0", ["a/w-0", "b/w-0"], "process")
