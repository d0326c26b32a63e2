"""The sockets between the roles, each by the name of a service, and the reports of every role."""

import contextlib
import time
from typing import Any

from caraml import (
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
"""Seconds after which a role asks again: the other one may be started again meanwhile."""


def pusher(service: str, hwm: int | None = None) -> ZmqPusher:
    """Sends to a queue; `hwm` messages wait at most."""
    return ZmqPusher(service=service, serializer="msgpack", hwm=hwm)


def puller(service: str, bind: bool = True, hwm: int | None = None) -> ZmqPuller:
    """Takes from a queue."""
    return ZmqPuller(service=service, bind=bind, deserializer="msgpack", hwm=hwm)


def client(service: str) -> ZmqClient:
    """Asks a server."""
    return ZmqClient(service=service, serializer="msgpack", deserializer="msgpack", timeout=DEADLINE)


def server(service: str) -> ZmqServer:
    """Answers what comes through the proxy of this service."""
    return ZmqServer(service=service, bind=False, serializer="msgpack", deserializer="msgpack")


def publisher(service: str) -> ZmqPub:
    """Tells all who subscribe."""
    return ZmqPub(service=service, serializer="msgpack")


def subscriber(service: str, topic: str, latest: bool = False) -> ZmqSub:
    """Is told what is published on a topic; `latest`: only the newest of it."""
    policy = "latest" if latest else "all"
    return ZmqSub(service=service, topic=topic, deserializer="msgpack", policy=policy)


def forward(pattern: str, frontend: str, backend: str) -> ZmqProxyThread:
    """A proxy from clients to servers ("router-dealer") or from pushers to pullers ("pull-push"), running."""
    proxy = ZmqProxyThread(in_service=frontend, out_service=backend, pattern=pattern)
    proxy.start()
    proxy.wait_bound(timeout=DEADLINE)
    return proxy


def ask(asking: ZmqClient, request: Any) -> Any:
    """The answer, however long it takes until the server is there."""
    while True:
        try:
            return asking.request(request)
        except ZmqTimeoutError:
            print(f"no answer from {asking.address}, asking again", flush=True)


class Reports:
    """Sends the log lines of a role to loggerplex and its numbers to tensorplex, and waits for neither."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.lines, self.numbers = pusher("loggerplex"), pusher("tensorplex")
        self.measured = time.monotonic()

    def say(self, line: str) -> None:
        """A line for people: printed here, and in the log of all roles."""
        print(line, flush=True)
        self._push(self.lines, line)

    def plot(self, step: int, **scalars: float) -> None:
        """Numbers for TensorBoard, at so many environment steps of the run."""
        self._push(self.numbers, {"step": step, "scalars": scalars})

    def every(self, seconds: float) -> float:
        """The seconds since it last was that long ago, else 0: for rates."""
        passed = time.monotonic() - self.measured
        if passed < seconds:
            return 0.0
        self.measured += passed
        return passed

    def _push(self, to: ZmqPusher, content: Any) -> None:
        with contextlib.suppress(ZmqTimeoutError):  # no process listens
            to.push({"role": self.role, "time": time.time(), "content": content}, timeout=0)
