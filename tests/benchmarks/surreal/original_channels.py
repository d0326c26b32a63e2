"""examples/surreal/shared/channels.py on caraml 0.10.0: throughput.py puts it there for the same roles."""

import contextlib
import os
import time
from typing import Any

import zmq

from caraml.zmq import (
    ZmqClient,
    ZmqProxyThread,
    ZmqPub,
    ZmqPuller,
    ZmqPusher,
    ZmqServer,
    ZmqSub,
    ZmqTimeoutError,
)

DEADLINE = 5.0
CODEC = "pickle"


def place(service: str) -> dict[str, Any]:
    """Where a service is; the original reads no variables by itself."""
    name = service.upper().replace("-", "_")
    return {
        "host": os.environ[f"SYMPH_{name}_HOST"],
        "port": int(os.environ[f"SYMPH_{name}_PORT"]),
        "verbose": False,
    }


class Puller(ZmqPuller):
    """With a deadline, which the original has for requests only."""

    def pull(self, timeout: float | None = None) -> Any:
        self.socket.setsockopt(zmq.RCVTIMEO, -1 if timeout is None else int(timeout * 1000))
        try:
            return super().pull()
        except zmq.Again:
            raise ZmqTimeoutError from None


class Pusher(ZmqPusher):
    """The same."""

    def push(self, data: Any, timeout: float | None = None) -> None:
        self.socket.setsockopt(zmq.SNDTIMEO, -1 if timeout is None else int(timeout * 1000))
        try:
            super().push(data)
        except zmq.Again:
            raise ZmqTimeoutError from None


def pusher(service: str, hwm: int | None = None) -> Pusher:
    return Pusher(**place(service), serializer=CODEC, hwm=hwm)


def puller(service: str, bind: bool = True, hwm: int | None = None) -> Puller:
    return Puller(**place(service), bind=bind, deserializer=CODEC, hwm=hwm)


def client(service: str) -> ZmqClient:
    return ZmqClient(**place(service), serializer=CODEC, deserializer=CODEC, timeout=DEADLINE)


def server(service: str) -> ZmqServer:
    return ZmqServer(**place(service), bind=False, serializer=CODEC, deserializer=CODEC)


def publisher(service: str) -> ZmqPub:
    return ZmqPub(**place(service), serializer=CODEC)


def subscriber(service: str, topic: str, latest: bool = False) -> ZmqSub:
    return ZmqSub(**place(service), topic=topic, deserializer=CODEC)


def forward(pattern: str, frontend: str, backend: str) -> ZmqProxyThread:
    front, back = (f"tcp://{each['host']}:{each['port']}" for each in (place(frontend), place(backend)))
    proxy = ZmqProxyThread(front, back, pattern=pattern)
    proxy.daemon = True
    proxy.start()
    return proxy


def ask(asking: ZmqClient, request: Any) -> Any:
    while True:
        try:
            return asking.request(request)
        except ZmqTimeoutError:
            continue


class Reports:
    """As in the example."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.lines, self.numbers = pusher("loggerplex"), pusher("tensorplex")
        self.measured = time.monotonic()

    def say(self, line: str) -> None:
        self._push(self.lines, line)

    def plot(self, step: int, **scalars: float) -> None:
        self._push(self.numbers, {"step": step, "scalars": scalars})

    def every(self, seconds: float) -> float:
        passed = time.monotonic() - self.measured
        if passed < seconds:
            return 0.0
        self.measured += passed
        return passed

    def _push(self, to: Pusher, content: Any) -> None:
        with contextlib.suppress(ZmqTimeoutError):
            to.push({"role": self.role, "time": time.time(), "content": content}, timeout=0)
