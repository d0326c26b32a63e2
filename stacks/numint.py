"""Numerical integration in pieces: one reducer hands out work, workers in process groups do it.

Settings of the stack, under `config:` in stacks/Pulumi.NAME.yaml:
numint:workers   the number of workers; default 4
numint:function  the function to integrate from 0 to 1: pi, log or sine (examples/numint/functions.py)
numint:steps     the number of points; default 200 million
numint:pieces    the number of pieces of work; default 100
"""

import pulumi

from symphony import Experiment, UserError

WORKERS_OF_A_GROUP = 2
FUNCTIONS = ("log", "pi", "sine")

config = pulumi.Config("numint")


def whole_number(setting: str, default: int, most: int) -> int:
    """Return a setting as an integer from 1 to `most`, or raise UserError."""
    value = config.get(setting) or str(default)
    if not (value.isascii() and value.isdigit() and len(value) < 16 and 1 <= int(value) <= most):
        raise mistake(setting, value, f"a whole number from 1 to {most}")
    return int(value)


def mistake(setting: str, given: str, allowed: str) -> UserError:
    """Return the error for a setting, with the command that corrects it."""
    return UserError(
        f'{setting} is "{given}", which is not {allowed}',
        where=f"numint:{setting} in stacks/Pulumi.{pulumi.get_stack()}.yaml",
        remedy=f"Correct it there, or go back to the default:"
        f" `pulumi config rm numint:{setting} --stack {pulumi.get_stack()}`",
    )


workers = whole_number("workers", 4, most=1000)
steps = whole_number("steps", 200_000_000, most=10**12)
pieces = whole_number("pieces", min(100, steps), most=min(steps, 10**6))
function = config.get("function") or "pi"
if function not in FUNCTIONS:
    raise mistake("function", function, f"one of {', '.join(FUNCTIONS)}")

# The experiment completes with the reducer; then the workers are stopped.
with Experiment(
    "numint", start_dir="examples/numint", env={"OMP_NUM_THREADS": 1}, primary="reducer"
) as experiment:
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
        worker.connects("pieces", wait=True)
