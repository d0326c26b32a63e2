"""The natural order of processes: 2 before 10; digits after a leading zero are decimals: 001, 01, 1."""

from __future__ import annotations

import random

from symphony.plan.names import sort_key


def test_processes_are_sorted_by_the_numbers_in_their_names() -> None:
    names = ["server", "agent-2", "agent-10", "lr0_001-s0", "lr0_01-s0", "lr0_1-s0", "w-00", "w-01", "w-10"]
    expected = [
        "agent-2",
        "agent-10",
        "lr0_001-s0",
        "lr0_01-s0",
        "lr0_1-s0",
        "server",
        "w-00",
        "w-01",
        "w-10",
    ]
    random.shuffle(names)
    assert sorted([*names, "pool/a"], key=sort_key) == [*expected, "pool/a"]
