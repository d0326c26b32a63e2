"""Acknowledged delivery: `python acknowledged.py receiver` and `python acknowledged.py sender`."""

import sys

from where import PATIENCE, where

from caraml import ZmqReceiver, ZmqSender

COUNT = 1000


def receiver() -> None:
    with ZmqReceiver(**where("results"), deserializer="msgpack", timeout=PATIENCE) as receiving:
        got = [receiving.recv() for _ in range(COUNT)]
    print(f"received {len(got)}, in order: {got == list(range(COUNT))}")


def sender() -> None:
    sending = ZmqSender(**where("results"), serializer="msgpack", timeout=PATIENCE)
    for number in range(COUNT):
        sending.send(number)
    print("all acknowledged:", sending.close(timeout=PATIENCE))


if __name__ == "__main__":
    {"receiver": receiver, "sender": sender}[sys.argv[1]]()
