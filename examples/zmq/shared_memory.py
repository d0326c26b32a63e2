"""Large arrays on one machine: `python shared_memory.py reader` and `python shared_memory.py writer`."""

import sys

import numpy as np
from where import where

from caraml import SharedPool, ZmqClient, ZmqServer
from caraml.inmemory import get

SHAPE = (16, 256, 256)
COUNT = 10


def reader() -> None:
    sums = []

    def read(name: bytes) -> bytes:
        with get(name) as frames:  # the writer's own memory: nothing is copied
            sums.append(int(frames.sum()))
        if len(sums) == COUNT:
            answering.stop()
        return b"read"

    with ZmqServer(**where("frames")) as answering:
        answering.start_loop(read, blocking=True)
    print(f"read {len(sums)}, {sum(sums)} in all")


def writer() -> None:
    pool = SharedPool()
    with ZmqClient(**where("frames"), timeout=30) as asking:
        asking.request(pool.put(np.ones(SHAPE, np.uint8)))  # one copy, into the pool
        for _ in range(COUNT - 1):
            frames = pool.empty(SHAPE, np.uint8)  # no copy: this array is in the pool already
            frames[:] = 1
            asking.request(pool.put(frames))
            del frames
    print(f"wrote {COUNT} into {pool.nbytes >> 20} MiB, {pool.inline} found no room")


if __name__ == "__main__":
    {"reader": reader, "writer": writer}[sys.argv[1]]()
