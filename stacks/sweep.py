"""One learning run in one process; examples/surreal/sweep.py creates many stacks of it for a sweep.

Settings of the stack: `sweep:settings`, the options of examples/surreal/single.py: environment, seed, ...
"""

from typing import Any

import pulumi

from symphony import Experiment

settings: dict[str, Any] = pulumi.Config("sweep").get_object("settings") or {}
options = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", value)]
env = {"OMP_NUM_THREADS": 1, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}

with Experiment("sweep", start_dir="examples/surreal", env=env) as experiment:
    experiment.new_process("run", command="python", args=["-u", "single.py", *options])
