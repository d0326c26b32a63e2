"""One process of a benchmark: python roles.py SIDE PATTERN ROLE PAYLOAD COUNT PORT.

The consumer reports the first and the last message on another socket, so that the producer measures until
all messages have arrived. SIDE is `raw` (pyzmq), `ours` or the original caraml.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

SIDE, PATTERN, ROLE, PAYLOAD = sys.argv[1:5]
COUNT, PORT = int(sys.argv[5]), int(sys.argv[6])
END = "tcp://127.0.0.1"


def value() -> Any:
    if PAYLOAD == "16 B":
        return bytes(16)
    frames = 1 if PAYLOAD == "28 KB" else 64
    return {"frame": np.zeros((frames, 84, 84, 4), np.uint8), "reward": np.zeros(frames)}


def raw(kind: str) -> tuple[Any, Any]:
    """Return send and receive of a plain pyzmq socket; the messages have the same size."""
    import zmq

    socket = zmq.Context.instance().socket(getattr(zmq, kind))
    socket.linger = 0
    if kind in ("PUB", "SUB"):
        socket.set_hwm(0)  # otherwise it drops messages, and the consumer waits for ever
    if kind in ("PULL", "REP", "PUB"):
        socket.bind(f"{END}:{PORT}")
    else:
        socket.connect(f"{END}:{PORT}")
    if kind == "SUB":
        socket.subscribe(b"t")
    data = b"t" + b"".join(bytes(part) for part in parts(value()))
    return (lambda _: socket.send(data, copy=len(data) < 1 << 16)), lambda: socket.recv(copy=False)


def parts(message: Any) -> Any:
    return [message] if isinstance(message, bytes) else message.values()


def caraml(kind: str) -> tuple[Any, Any]:
    """Return send and receive of a class of caraml, this one or the original: the API is the same."""
    import caraml.zmq as patterns

    name = None if PAYLOAD == "16 B" else "msgpack" if SIDE == "ours" else "pickle"
    out = {"host": "127.0.0.1", "port": PORT, "serializer": name}
    back = {"host": "127.0.0.1", "port": PORT, "deserializer": name}
    if kind == "PUSH":
        return patterns.ZmqPusher(**out).push, None
    if kind == "PULL":
        return None, patterns.ZmqPuller(**back).pull
    if kind == "REQ":
        return patterns.ZmqClient(**out).request, None
    if kind == "REP":
        server = patterns.ZmqServer(**back)
        return server.send, server.recv
    if kind == "SENDER":
        return patterns.ZmqSender(**out).send, None
    if kind == "RECEIVER":
        return None, patterns.ZmqReceiver(**back).recv
    if kind == "PUB":
        publisher = patterns.ZmqPub(**out, hwm=0)
        return (lambda data: publisher.pub("t", data)), None
    return None, patterns.ZmqSub(topic="t", **back, hwm=0).recv


def main() -> None:
    produce, consume = {
        "push": ("PUSH", "PULL"),
        "request": ("REQ", "REP"),
        "acknowledged": ("SENDER", "RECEIVER"),
        "publish": ("PUB", "SUB"),
    }[PATTERN]
    make = raw if SIDE == "raw" else caraml
    send, receive = make(produce if ROLE == "produce" else consume)
    import zmq

    done = zmq.Context.instance().socket(zmq.PAIR)  # the consumer says when it has them all
    address = f"ipc:///tmp/caraml-bench-{PORT}"
    if ROLE == "consume":
        done.bind(address)
        answer = bytes(16)
        for number in range(COUNT + 1):
            receive()
            if PATTERN == "request":
                send(answer)
            if number == 0:
                done.send(b"first")
        done.send(b"last")
        done.recv()  # until sides.measure kills this process
        return
    done.connect(address)
    message = value()
    exchange: Callable[[Any], Any] = send
    if SIDE == "raw" and PATTERN == "request":
        exchange = lambda data: (send(data), receive())  # noqa: E731
    while True:
        exchange(message)
        if PATTERN != "publish" or done.poll(50):
            break
    done.recv()
    begin = time.perf_counter()
    for _ in range(COUNT):
        exchange(message)
    if PATTERN != "request":
        done.recv()
    print((time.perf_counter() - begin) / COUNT)


main()
