"""A queue: `python push_pull.py pull` and `python push_pull.py push`; ten messages, then both end."""

import sys

import numpy as np
from where import PATIENCE, where

from caraml import ZmqPuller, ZmqPusher

COUNT = 10


def push() -> None:
    with ZmqPusher(**where("queue"), serializer="msgpack", timeout=PATIENCE) as pusher:
        for step in range(COUNT):
            pusher.push({"step": step, "frame": np.full((84, 84), step, np.uint8)})
    print(f"pushed {COUNT}")


def pull() -> None:
    with ZmqPuller(**where("queue"), deserializer="msgpack", timeout=PATIENCE) as puller:
        total = sum(puller.pull()["step"] for _ in range(COUNT))
    print(f"pulled {COUNT}, steps add up to {total}")


if __name__ == "__main__":
    {"push": push, "pull": pull}[sys.argv[1]]()
