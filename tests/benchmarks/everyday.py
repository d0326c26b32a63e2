"""Rows of what is done all day: imports, planning, listing."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

from symphony.plan.build import build_plan
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec
from symphony.spec.process import ProcessSpec, ServiceUse
from tests.benchmarks import code
from tests.benchmarks.commands import LOOK
from tests.benchmarks.projects import OURS, project
from tests.benchmarks.timing import Row, alone, paired, seconds

STACKS = 100


def rows() -> list[Row]:
    """Plan of 1,000 processes, imports, `ls` of 100 stacks, declared code."""
    return [
        alone("plan of 1,000 processes", _plan_thousand(), goal=0.3),
        paired(
            "import symphony, Experiment",
            lambda: _python("import symphony; symphony.Experiment"),
            lambda: _python("import pulumi"),
            against="import pulumi",
            goal=1.2,
        ),
        _ls(),
        *code.on_tmux(),
    ]


def _plan_thousand():
    service = ServiceUse("data")
    workers = tuple(
        ProcessSpec(f"w-{n}", command=("sleep",), args=("1",), connects=(service,)) for n in range(999)
    )
    spec = ExperimentSpec("big", (ProcessSpec("server", command=("sleep",), binds=(service,)), *workers))
    target = Target(
        "tmux",
        "big",
        "command",
        frozenset({"command", "args"}),
        True,
        "127.0.0.1",
        "127.0.0.1",
        {"data": 20000},
    )
    return lambda: seconds(lambda: build_plan(spec, target))


def _python(code: str) -> float:
    return seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True, timeout=60))


def _ls() -> Row:
    with project(OURS.format(count=3)) as ours, tempfile.TemporaryDirectory():
        ours.symphony("up", "ours.s0", "-y")
        stacks = ours.folder / "store/.pulumi/stacks/bench"
        first = json.loads((stacks / "ours.s0.json").read_text())
        text = json.dumps(first)
        for number in range(1, STACKS):
            (stacks / f"ours.s{number}.json").write_text(
                text.replace("bench/ours.s0", f"bench/ours.s{number}")
            )
        row = alone("ls of 100 stacks", lambda: ours.symphony("ls"), goal=LOOK)
        for number in range(1, STACKS):
            (stacks / f"ours.s{number}.json").unlink()
        return row
