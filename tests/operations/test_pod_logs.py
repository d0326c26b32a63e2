"""The logs of pods that are copied to the folder of their run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from symphony.backends.observe import LogLine
from symphony.operations import pod_logs


def test_what_symphony_says_about_a_log_is_not_kept_as_output(tmp_path: Path) -> None:
    """The log of a lost pod ended with a line "could not read the log" for each look at it."""
    lines = [
        LogLine("a", "loss 1", 1.0),
        LogLine("a", "could not read the log: the pod no longer exists", 2.0, is_note=True),
    ]
    observer = SimpleNamespace(logs=lambda *_, **__: iter(lines))
    stack: Any = SimpleNamespace(recorded=object(), processes={"a": {}}, observer=lambda: observer)
    for _ in range(2):
        trouble = pod_logs.collect(stack, tmp_path, 0)
        assert trouble == "a: could not read the log: the pod no longer exists"
    assert (tmp_path / "a/log").read_text() == "loss 1\n"
