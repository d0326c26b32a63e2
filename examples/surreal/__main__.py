"""One learning run in one process, to sweep over: `symphony sweep single seed=0..2`."""

import symphony
from symphony import Experiment

params = symphony.params(environment="CartPole-v1", learning_rate=0.001, seed=0)
options = [
    word for name, value in vars(params).items() for word in (f"--{name.replace('_', '-')}", str(value))
]
env = {"OMP_NUM_THREADS": 1, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}

with Experiment(env=env) as experiment:
    experiment.new_process("run", command=["python", "-u", "single.py", *options])
