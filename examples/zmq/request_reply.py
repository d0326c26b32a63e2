"""Requests and replies: `python request_reply.py server` and `python request_reply.py client`."""

import sys

from where import PATIENCE, where

from caraml import RemoteError, ZmqClient, ZmqServer


def server() -> None:
    def answer(request: dict) -> float:
        if request.get("end"):
            answering.stop()
            return 0
        return request["x"] / request["y"]

    with ZmqServer(**where("echo"), serializer="msgpack", deserializer="msgpack") as answering:
        answering.start_loop(answer, blocking=True)
    print("served")


def client() -> None:
    with ZmqClient(**where("echo"), serializer="msgpack", deserializer="msgpack", timeout=PATIENCE) as asking:
        print("6 / 3 =", asking.request({"x": 6, "y": 3}))
        try:
            asking.request({"x": 6, "y": 0})
        except RemoteError as error:
            print("6 / 0:", str(error).partition("answer: ")[2])
        asking.request({"end": True})


if __name__ == "__main__":
    {"server": server, "client": client}[sys.argv[1]]()
