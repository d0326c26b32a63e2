"""How long the plan of 1,000 processes takes in-process: median of 5, the goal is 0.3 s. Run it by itself."""

from __future__ import annotations

import statistics
import time

from symphony import Experiment
from symphony.plan.build import build_plan
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec

PROCESSES = 1000
SERVICES = 100
ROUNDS = 5
GOAL = 0.3


def declaration() -> ExperimentSpec:
    """An experiment of usual processes: some serve, all connect, half are in groups."""
    experiment = Experiment("big", env={"SEED": 1}, preamble_cmds=["export OMP_NUM_THREADS=1"])
    groups = [experiment.new_process_group(f"group-{i}") for i in range(10)]
    for i in range(PROCESSES):
        owner = groups[i // 2 % 10] if i % 2 else experiment
        process = owner.new_process(
            f"p{i}", command="python", args=["-u", "p.py", "--seed", i], env={"RANK": i}
        )
        if i < SERVICES:
            process.binds(f"service-{i}")
        process.connects(f"service-{i % SERVICES}")
    return experiment.spec


def target() -> Target:
    return Target(
        backend="tmux",
        launched_as="big",
        starts="command",
        supports=frozenset({"command", "args", "preamble_cmds"}),
        one_host=True,
        host_of="127.0.0.1",
        bind_host="127.0.0.1",
        ports={f"service-{i}": 20_000 + i for i in range(SERVICES)},
    )


def seconds() -> list[float]:
    spec, backend = declaration(), target()
    took: list[float] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        build_plan(spec, backend)
        took.append(time.perf_counter() - start)
    return took


if __name__ == "__main__":
    median = statistics.median(seconds())
    print(f"plan of {PROCESSES} processes: {median:.3f} s, goal {GOAL} s")
