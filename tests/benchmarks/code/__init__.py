"""Rows of declared code: what 10,000 files of it add to a command that changes nothing."""

from __future__ import annotations

import statistics
import time

from tests.benchmarks.clusters import add_plugin, configure
from tests.benchmarks.projects import Project, project
from tests.benchmarks.timing import RUNS, Row
from toolchain.kubernetes.fixtures import Access
from toolchain.kubernetes.images import BUSYBOX_IMAGE

FOLDERS, FILES = 100, 100
GOAL = 0.5
# What is younger may have changed within a tick of the clock, and is read again.
YOUNG = 3
CODED, PLAIN = "ours.coded", "ours.plain"
PROGRAM = """
import pulumi
from symphony import Experiment
code = ["files"] if pulumi.get_stack().endswith("coded") else []
with Experiment(code=code) as experiment:
    for number in range(3):
        experiment.new_process(f"p-{number}", command="sleep", args=[100000])
"""


def on_tmux() -> list[Row]:
    """`plan` and `up` of processes in tmux, with declared code and without."""
    with project(PROGRAM) as ours:
        return _rows(ours, "tmux")


def on_kubernetes(cluster: Access) -> list[Row]:
    """The same of pods."""
    with project(PROGRAM) as ours:
        add_plugin(ours)
        for stack in (CODED, PLAIN):
            configure(ours, stack, cluster, BUSYBOX_IMAGE)
        return _rows(ours, "kubernetes")


def _rows(ours: Project, backend: str) -> list[Row]:
    for folder in range(FOLDERS):
        place = ours.folder / "files" / str(folder)
        place.mkdir(parents=True)
        for file in range(FILES):
            (place / f"{file}.py").write_text(f"# {folder} {file}\n" * 50)
    time.sleep(YOUNG)
    for stack in (CODED, PLAIN):
        ours.symphony("up", stack, "-y")
    return [_row(ours, words, backend) for words in (("plan",), ("up", "-y"))]


def _row(ours: Project, words: tuple[str, ...], backend: str) -> Row:
    pairs = [(ours.symphony(*words, CODED), ours.symphony(*words, PLAIN)) for _ in range(RUNS)]
    coded, plain = (statistics.median(side) for side in zip(*pairs, strict=True))
    return Row(
        f"`{words[0]}` without a change, {backend}: what code= of {FOLDERS * FILES:,} files adds",
        ours=statistics.median(a - b for a, b in pairs),
        goal=GOAL,
        against=f"{coded:.2f} s with, {plain:.2f} s without",
    )
