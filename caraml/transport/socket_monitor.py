"""What ZeroMQ reports of a socket's connections: refusals, losses, and handshakes that succeeded."""

import itertools
import logging
import struct
import time
from collections import deque
from functools import partial
from typing import Any

import zmq

from caraml.errors import AuthenticationError
from caraml.transport.background import background_thread, private_socket

log = logging.getLogger("caraml")

_EVENTS = (
    zmq.Event.ACCEPTED
    | zmq.Event.CONNECTED
    | zmq.Event.HANDSHAKE_SUCCEEDED
    | zmq.Event.HANDSHAKE_FAILED_AUTH
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
    | zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    | zmq.Event.DISCONNECTED
    | zmq.Event.MONITOR_STOPPED
)
_HANDSHAKE_ERRORS = {
    zmq.Event.HANDSHAKE_FAILED_AUTH: "the key is not allowed",
    zmq.Event.HANDSHAKE_FAILED_PROTOCOL: "no key, another security mechanism, or not ZeroMQ",
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL: "closed during the handshake: a wrong server key, or not ZeroMQ",
}
_event = struct.Struct("=Hi")  # as ZeroMQ writes it; pyzmq's own reader loads asyncio
_AT_ONCE = 1.0
_PATIENCE = 2  # handshakes closed without a reason before a connector calls it a refusal: servers do restart


class Link:
    """What is known of a socket's connections: refusals, losses, and the error its calls raise."""

    __slots__ = (
        "__weakref__",
        "bind",
        "budget",
        "denied",
        "denied_count",
        "endpoint",
        "fault",
        "lost",
        "made",
        "news",
        "queued",
        "refused_at",
        "shaking",
        "unexplained",
    )

    def __init__(self, endpoint: str, bind: bool) -> None:
        self.endpoint = endpoint
        self.bind = bind
        self.budget: Any = None  # counts what connections bring: opened(), closed(), end()
        self.fault: AuthenticationError | None = None
        self.denied: deque[AuthenticationError] = deque(maxlen=100)
        self.denied_count = 0
        self.lost = 0
        self.news = 0  # changes with `lost` and `fault`: one look tells that there is something to look at
        self.made = 0
        self.queued: int | None = None  # messages sent before the first peer was there; None: not counted
        self.unexplained = 0
        self.refused_at = 0.0
        self.shaking: dict[int, None] = {}

    def handle(self, event: zmq.Event, descriptor: int) -> None:
        """Take in one event of the monitor."""
        if self.budget is not None and event in (zmq.Event.ACCEPTED, zmq.Event.CONNECTED):
            self.budget.opened(descriptor)
        elif self.budget is not None and event == zmq.Event.DISCONNECTED:
            self.budget.closed(descriptor)
        if event == zmq.Event.ACCEPTED:
            self.shaking[descriptor] = None
        elif event == zmq.Event.HANDSHAKE_SUCCEEDED:
            self.fault, self.unexplained = None, 0
            self.made += 1
            self.queued = None
            self._settle_oldest()
        elif event == zmq.Event.DISCONNECTED:
            if descriptor in self.shaking:
                del self.shaking[descriptor]
                self._refused(zmq.Event.HANDSHAKE_FAILED_PROTOCOL)
            else:
                self.lost += 1
                self.news += 1
        elif event in _HANDSHAKE_ERRORS:
            self._settle_oldest()
            self._refused(event)

    def _settle_oldest(self) -> None:
        """ZeroMQ does not say whose handshake ended: of several at once, the first."""
        for descriptor in self.shaking:
            del self.shaking[descriptor]
            break

    def _refused(self, event: zmq.Event) -> None:
        error = AuthenticationError(f"{self.endpoint}: refused: {_HANDSHAKE_ERRORS[event]}")
        self.denied_count += 1
        self.denied.append(error)
        if self.denied_count == 1:
            log.warning("%s: %s", self.endpoint, error)
        if self.bind:
            return
        if time.monotonic() - self.refused_at > _AT_ONCE:
            self.unexplained = 0  # a server that was too slow to answer, and not one that refuses
        self.refused_at = time.monotonic()
        self.unexplained += event == zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
        if event != zmq.Event.HANDSHAKE_FAILED_NO_DETAIL or self.unexplained > _PATIENCE:
            self.fault = error
            self.news += 1


def watch(raw: zmq.Socket[Any], link: Link) -> None:
    """Report the connections of `raw` to `link` until its monitor is disabled."""
    name = f"inproc://caraml-monitor-{next(_numbers)}"
    raw.monitor(name, _EVENTS)
    monitor = private_socket(raw.context, zmq.PAIR)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    monitor.connect(name)
    background_thread().add(monitor, partial(_read_event, link))


def _read_event(link: Link, monitor: zmq.Socket[Any]) -> bool:
    """Hand the next event to `link`; False after the last one."""
    try:
        event, value = _event.unpack(monitor.recv_multipart(zmq.NOBLOCK)[0])
        if event == zmq.Event.MONITOR_STOPPED:
            return False
        link.handle(zmq.Event(event), value)
        return True
    except (zmq.ZMQError, ValueError, IndexError, struct.error):
        return False


_numbers = itertools.count()
