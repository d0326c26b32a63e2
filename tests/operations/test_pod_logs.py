"""The logs of pods that are copied to the folder of their run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from symphony.backends.observe import LogLine
from symphony.backends.process_logs import merge_lines
from symphony.operations import pod_logs


def test_what_symphony_says_about_a_log_is_not_kept_as_output(tmp_path: Path) -> None:
    """Without this, each collection adds "could not read the log" to the kept log of a lost pod."""
    lines = [
        LogLine("a", "loss 1", 1.0),
        LogLine("a", "could not read the log: the pod no longer exists", 2.0, is_note=True),
    ]
    observer = SimpleNamespace(logs=lambda *_, **__: iter(lines))
    stack: Any = SimpleNamespace(recorded=object(), processes={"a": {}}, observer=lambda: observer)
    for _ in range(2):
        trouble = pod_logs.collect(stack, tmp_path, began=0)
        assert trouble == "a: could not read the log: the pod no longer exists"
    assert (tmp_path / "a/log").read_text() == "loss 1\n"


@pytest.mark.parametrize("end", ["exit 1", "out of memory, exit 137 (SIGKILL)"])
def test_lines_and_an_end_of_one_moment_are_kept_once(tmp_path: Path, end: str) -> None:
    """The line of an end may have the time of the last output line; it must not pass for a repetition."""
    lines = [LogLine("a", "loss 1", 1.5), LogLine("a", "loss 2", 1.5)]
    observer = SimpleNamespace(logs=lambda *_, **__: iter(lines))
    stack: Any = SimpleNamespace(recorded=object(), processes={"a": {}}, observer=lambda: observer)
    pod_logs.collect(stack, tmp_path, began=0)
    lines.append(LogLine("a", f"ended: {end}", 1.5, ended=True))
    for _ in range(2):
        pod_logs.collect(stack, tmp_path, began=0)
    processes = {"a": {"log": str(tmp_path / "a/log")}}
    kept = merge_lines(processes, ["a"], since=None, tail=None)
    assert [line.text for line in kept] == ["loss 1", "loss 2", f"ended: {end}"]
