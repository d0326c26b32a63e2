"""Learns the weights of a linear regression from batches, and reports the loss of every fifth one."""

import sys

import numpy as np

import symphony
from caraml import ZmqPuller

rate = float(sys.argv[1])
weights = np.zeros(8)
with ZmqPuller(service="batches", deserializer="msgpack") as puller:
    for step in range(1, 101):
        batch = puller.pull(timeout=60)
        error = batch["x"] @ weights - batch["y"]
        weights -= rate * batch["x"].T @ error / len(error)
        if step % 5 == 0:
            symphony.report(loss=round(float(np.mean(error**2)), 4), step=step)
