"""Gradient descent with two parameters, to sweep over: `symphony sweep descent lr=0.01,0.1 seed=1,2`."""

import symphony
from symphony import Experiment

params = symphony.params(lr=0.1, seed=1)

with Experiment(primary="learner") as experiment:
    learner = experiment.new_process("learner", command=["python", "learner.py", str(params.lr)])
    learner.binds("batches")
    data = experiment.new_process("data", command=["python", "data.py", str(params.seed)])
    data.connects("batches")
