"""The experiment that the tests of `symphony top` and docs/screens/top.svg show."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from symphony.backends.observe import ProcessStatus, Usage
from symphony.operations import graph
from symphony.operations.top import Edge, Row, View

_SINCE = 3 * 3600 + 12 * 60 + 5


def view(agents: int = 4) -> View:
    """Return what a Looker sees of a reinforcement learning experiment."""
    now = time.time()
    names = [f"agents/{number}" for number in range(agents)]
    rows = [
        _row("learner", 0.98, 2.1, "step 9000 loss 0.212", gpu="0: 6.2G"),
        _row("ps", 0.03, 0.2, "serving 31 versions"),
        *(
            _row(name, 0.61, 1.2, f"episode 3,41{number % 10} return 187", restarts=number == 2)
            for number, name in enumerate(names)
        ),
        Row(
            ProcessStatus("eval", "failed", ready=False, restarts=5, why="exit 1", since=now - 44),
            Usage(node="vm"),
            "ModuleNotFoundError: gym",
        ),
    ]
    edges = (
        Edge("replay", "127.0.0.1:7001", "learner", tuple(names), True, True, frozenset(names), 0.0002),
        Edge(
            "ps-frontend",
            "127.0.0.1:7002",
            "ps",
            tuple(names),
            listens=False,
            trouble="not listening",
            since=now - 14,
        ),
    )
    declared: list[dict[str, Any]] = [
        {"path": row.status.path, "connects": ["replay"] if row.status.group else []} for row in rows
    ]
    statuses = {row.status.path: row.status for row in rows}
    return View("rl", "tmux", tuple(rows), edges, "", graph.build("rl", "tmux", declared, (), statuses))


def _row(path: str, cpu: float, gigabytes: float, line: str, restarts: int = 0, gpu: str = "") -> Row:
    status = ProcessStatus(
        path, "running", ready=True, restarts=int(restarts), since=time.time() - _SINCE, pid=1
    )
    return Row(status, Usage(cpu, int(gigabytes * (1 << 30)), gpu, "vm"), line)


class Scripted:
    """A source of views that a test changes."""

    def __init__(self, first: View) -> None:
        self.view, self.asked = first, list[Sequence[str]]()

    def look(self, lines: Sequence[str]) -> View:
        self.asked.append(lines)
        return replace(self.view)

    def check(self) -> bool:
        return False
