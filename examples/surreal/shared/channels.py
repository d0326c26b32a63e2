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
    """Return a socket that sends to a queue of at most `hwm` messages."""
    return ZmqPusher(service=service, serializer="msgpack", hwm=hwm)


def puller(service: str, bind: bool = True, hwm: int | None = None) -> ZmqPuller:
    """Return a socket that receives from a queue."""
    return ZmqPuller(service=service, bind=bind, deserializer="msgpack", hwm=hwm)


def client(service: str) -> ZmqClient:
    """Return a client of a server."""
    return ZmqClient(service=service, serializer="msgpack", deserializer="msgpack", timeout=DEADLINE)


def server(service: str) -> ZmqServer:
    """Return a server for requests through the proxy of this service."""
    return ZmqServer(service=service, bind=False, serializer="msgpack", deserializer="msgpack")


def publisher(service: str) -> ZmqPub:
    """Return a publisher."""
    return ZmqPub(service=service, serializer="msgpack")


def subscriber(service: str, topic: str, latest: bool = False) -> ZmqSub:
    """Return a subscriber to a topic; with `latest`, it receives only the newest message."""
    policy = "latest" if latest else "all"
    return ZmqSub(service=service, topic=topic, deserializer="msgpack", policy=policy)


def forward(pattern: str, frontend: str, backend: str) -> ZmqProxyThread:
    """Start a proxy from clients to servers ("router-dealer") or from pushers to pullers ("pull-push")."""
    proxy = ZmqProxyThread(in_service=frontend, out_service=backend, pattern=pattern)
    proxy.start()
    proxy.wait_bound(timeout=DEADLINE)
    return proxy


def ask(asking: ZmqClient, request: Any) -> Any:
    """Return the answer to a request; wait for the server without a limit."""
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
        """Print a line, and send it to the log of all roles."""
        print(line, flush=True)
        self._push(self.lines, line)

    def plot(self, step: int, **scalars: float) -> None:
        """Send numbers to TensorBoard for a count of environment steps."""
        self._push(self.numbers, {"step": step, "scalars": scalars})

    def every(self, seconds: float) -> float:
        """Return the seconds since the last result other than 0, if they are at least `seconds`; else 0."""
        passed = time.monotonic() - self.measured
        if passed < seconds:
            return 0.0
        self.measured += passed
        return passed

    def _push(self, to: ZmqPusher, content: Any) -> None:
        with contextlib.suppress(ZmqTimeoutError):  # the queue of 1,000 messages is full
            to.push({"role": self.role, "time": time.time(), "content": content}, timeout=0)
