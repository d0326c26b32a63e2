"""The progress of images that are built at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from symphony_docker import builder
from symphony_docker.progress import VARIABLE, Reader, Report, report


def test_each_step_of_a_build_is_reported() -> None:
    reported: list[str] = []
    steps = builder._Steps("Dockerfile", lambda text, *_: reported.append(text), None)  # pyright: ignore[reportPrivateUsage]
    for line in ("#7 [2/4] RUN a", "#8 [ 2/10] RUN b", "#9 [linux/amd64 base 3/4] RUN c", "#9 [x] d"):
        steps.add(line)
    assert reported == ["step 2/4: RUN a", "step 2/10: RUN b", "step 3/4: RUN c"]


def test_the_last_report_of_each_step_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reports of two images that are pushed at once alternate."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "reports"))
    reader = Reader(tmp_path / "reports")
    for done in (1, 2, 3):
        report(Report("learner", "push", done, 3))
        report(Report("agent", "push", done, 9))
    report(Report("learner", "done"))
    pushed = [Report("learner", "push", 3, 3), Report("agent", "push", 3, 9)]
    assert reader.new() == [*pushed, Report("learner", "done")]
    report(Report("agent", "push", 4, 9))
    assert reader.new() == [Report("agent", "push", 4, 9)]
