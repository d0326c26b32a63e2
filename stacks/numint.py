"""Numerical integration in pieces: one reducer hands out work, workers in process groups do it.

Settings of the stack (pulumi config set numint:workers 8):
numint:workers   how many workers, 4 unless said
numint:function  what is integrated from 0 to 1: pi, log or sine (examples/numint/functions.py)
numint:steps     how many points in all, 200 million unless said
numint:pieces    in how many pieces the work is handed out, 100 unless said
"""

import pulumi

from symphony import Experiment

WORKERS_OF_A_GROUP = 2

config = pulumi.Config("numint")
workers = config.get_int("workers") or 4
function = config.get("function") or "pi"
steps = config.get_int("steps") or 200_000_000
pieces = config.get_int("pieces") or 100

with Experiment("numint", start_dir="examples/numint", env={"OMP_NUM_THREADS": 1}) as experiment:
    reducer = experiment.new_process(
        "reducer",
        command="python",
        args=["-u", "reducer.py", "--function", function, "--steps", steps, "--pieces", pieces],
    )
    reducer.binds("pieces")

    for number in range(workers):
        if number % WORKERS_OF_A_GROUP == 0:
            group = experiment.new_process_group(f"pool-{number // WORKERS_OF_A_GROUP}")
        worker = group.new_process(f"worker-{number}", command="python", args=["-u", "worker.py"])
        worker.connects("pieces")
