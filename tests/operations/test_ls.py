"""The state of an experiment in a few words, as `symphony ls` shows it."""

from __future__ import annotations

import pytest

from symphony.backends.observe import ProcessStatus
from symphony.operations.ls import summary


def failed(path: str, why: str) -> ProcessStatus:
    return ProcessStatus(path, "failed", ready=False, why=why)


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        (["exit 3", "exit 3", "exit 3"], "failed: exit 3"),
        (["exit 3", "killed by SIGKILL"], "failed: exit 3; killed by SIGKILL"),
        (["exit 3", "exit 4", "exit 3", "exit 5"], "failed: exit 3; 2 other reasons"),
    ],
)
def test_summary_lists_each_reason_once(reasons: list[str], words: str) -> None:
    statuses = [failed(f"a{number}", why) for number, why in enumerate(reasons)]
    assert summary("rl", statuses)[0] == words
