"""Pushes batches of a linear regression to the learner; a seed always gives the same batches."""

import sys

import numpy as np

from caraml import ZmqPusher

random = np.random.default_rng(int(sys.argv[1]))
weights = random.normal(size=8)
with ZmqPusher(service="batches", serializer="msgpack") as pusher:
    while True:
        x = random.normal(size=(32, 8))
        pusher.push({"x": x, "y": x @ weights + random.normal(scale=0.1, size=32)})
