"""Publish by topic: `python publish_subscribe.py publisher` and `python publish_subscribe.py subscriber`."""

import sys

from where import PATIENCE, where

from caraml import ZmqPub, ZmqSub

COUNT = 10


def publisher() -> None:
    with ZmqPub(**where("news"), serializer="json") as publishing:
        publishing.wait_subscribers(1, timeout=PATIENCE)
        for step in range(COUNT):
            publishing.pub("loss", {"step": step, "loss": 1 / (step + 1)})
            publishing.pub("other", "no subscriber")
    print(f"published {COUNT}")


def subscriber() -> None:
    with ZmqSub(**where("news"), topic="loss", deserializer="json", timeout=PATIENCE) as subscribing:
        last = [subscribing.recv() for _ in range(COUNT)][-1]
    print(f"the last of {COUNT}: {last}, missed {subscribing.missed}")


if __name__ == "__main__":
    {"publisher": publisher, "subscriber": subscriber}[sys.argv[1]]()
