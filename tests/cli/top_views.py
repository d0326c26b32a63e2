"""Views of an experiment and of GPUs for tests of `symphony top` and the pictures in docs/screens."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from symphony.backends.observe import ProcessStatus, Usage
from symphony.operations import graph
from symphony.operations.top import Edge, Row, View
from symphony_tmux.gpus import Claim, Gpu

_SINCE = 3 * 3600 + 12 * 60 + 5


def view(agents: int = 4) -> View:
    """Return the view of a reinforcement learning experiment, as a Sampler returns it."""
    now = time.time()
    names = [f"agents/{number}" for number in range(agents)]
    rows = [
        _row("learner", 0.98, 2.1, "step 9000 loss 0.212", 4711, gpu="0: 6.2G 97%"),
        _row("ps", 0.03, 0.2, "serving 31 versions", 4712),
        *(
            _row(
                name,
                0.61,
                1.2,
                f"episode 3,41{number % 10} return 187",
                4713 + number,
                restarts=2 * (number == 2),
            )
            for number, name in enumerate(names)
        ),
        Row(
            ProcessStatus("eval", "failed", ready=False, restarts=5, why="exit 1", since=now - 44),
            Usage(node="vm"),
            "ModuleNotFoundError: gym",
        ),
    ]
    edges = (
        Edge(
            "replay",
            "127.0.0.1:7001",
            "learner",
            tuple(names),
            ready=True,
            listens=True,
            connected=frozenset(names),
            seconds=0.0002,
        ),
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
        {"path": "learner", "binds": ["replay"]},
        {"path": "ps", "binds": ["ps-frontend"]},
        *({"path": name, "connects": ["replay", "ps-frontend"]} for name in names),
        {"path": "eval", "waits_for": [{"path": "ps", "condition": "ready"}]},
    ]
    services = [
        {"name": edge.service, "port": edge.port, "path": edge.binds, "exposed": False} for edge in edges
    ]
    statuses = {row.status.path: row.status for row in rows}
    drawn = graph.build("rl", "tmux", declared, services, statuses)
    return View("rl", "tmux", tuple(rows), edges, "", drawn)


def gpus_of_machine() -> tuple[list[Gpu], list[Claim]]:
    """Return two GPUs, of which one is held and the other is used without a claim, and the claims."""
    facts = ((0, 6.2, 97, 4711), (1, 1.0, 3, 9120))
    every = [
        Gpu(
            index=index,
            uuid=f"GPU-{index}",
            name="RTX 3090",
            used=int(gigabytes * (1 << 30)),
            total=24 << 30,
            utilization=utilization,
            programs={pid: 1},
        )
        for index, gigabytes, utilization, pid in facts
    ]
    held = Claim(pid=4711, start=1, who="ana/rl/learner", count=1, asked=1, gpus=("GPU-0",))
    return every, [held, Claim(pid=9130, start=1, who="ben/rl/agent-0", count=1, asked=2)]


def _row(
    path: str, cpu: float, gigabytes: float, line: str, pid: int, restarts: int = 0, gpu: str = ""
) -> Row:
    since = time.time() - _SINCE
    status = ProcessStatus(path, "running", ready=True, restarts=restarts, since=since, pid=pid)
    return Row(status, Usage(cpu, int(gigabytes * (1 << 30)), gpu, "vm"), line)


class Scripted:
    """A source of views that a test changes."""

    def __init__(self, first: View) -> None:
        self.view, self.asked = first, list[Sequence[str]]()

    def sample(self, last_lines_of: Sequence[str]) -> View:
        self.asked.append(last_lines_of)
        return replace(self.view)

    def check(self) -> bool:
        return False
