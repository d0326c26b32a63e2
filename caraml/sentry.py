"""The one background thread: it reads what ZeroMQ reports of connections and answers who may connect.

Sockets register here when they bind or connect. The thread sleeps until a connection changes; no message
passes through it.
"""

import itertools
import logging
import struct
import threading
import time
from collections import deque
from typing import Any

import zmq

from caraml import process
from caraml.errors import AuthenticationError, SocketError
from caraml.security import Gate

log = logging.getLogger("caraml")

_EVENTS = (
    zmq.Event.ACCEPTED
    | zmq.Event.HANDSHAKE_SUCCEEDED
    | zmq.Event.HANDSHAKE_FAILED_AUTH
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
    | zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    | zmq.Event.DISCONNECTED
    | zmq.Event.MONITOR_STOPPED
)
_REFUSALS = {
    zmq.Event.HANDSHAKE_FAILED_AUTH: "the key is not allowed",
    zmq.Event.HANDSHAKE_FAILED_PROTOCOL: "no key, another security mechanism, or not ZeroMQ",
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL: "closed during the handshake: a wrong server key, or not ZeroMQ",
}
_ZAP = "inproc://zeromq.zap.01"
_event = struct.Struct("=Hi")  # as ZeroMQ writes it; pyzmq's own reader loads asyncio
_AT_ONCE = 1.0
_PATIENCE = 2  # handshakes closed without a reason before a connector calls it a refusal: servers do restart


class Link:
    """What is known of a socket's connections: refusals, losses, and the error its calls raise."""

    __slots__ = (
        "__weakref__",
        "bind",
        "denied",
        "denied_count",
        "endpoint",
        "fault",
        "lost",
        "made",
        "news",
        "refused_at",
        "shaking",
        "unexplained",
    )

    def __init__(self, endpoint: str, bind: bool) -> None:
        self.endpoint = endpoint
        self.bind = bind
        self.fault: AuthenticationError | None = None
        self.denied: deque[AuthenticationError] = deque(maxlen=100)
        self.denied_count = 0
        self.lost = 0
        self.news = 0  # changes with `lost` and `fault`: one look tells that there is something to look at
        self.made = 0
        self.unexplained = 0
        self.refused_at = 0.0
        self.shaking: dict[int, None] = {}

    def handle(self, event: zmq.Event, descriptor: int) -> None:
        """Take in one event of the monitor."""
        if event == zmq.Event.ACCEPTED:
            self.shaking[descriptor] = None
        elif event == zmq.Event.HANDSHAKE_SUCCEEDED:
            self.fault, self.unexplained = None, 0
            self.made += 1
            self._settle_oldest()
        elif event == zmq.Event.DISCONNECTED:
            if descriptor in self.shaking:
                del self.shaking[descriptor]
                self._refused(zmq.Event.HANDSHAKE_FAILED_PROTOCOL)
            else:
                self.lost += 1
                self.news += 1
        elif event in _REFUSALS:
            self._settle_oldest()
            self._refused(event)

    def _settle_oldest(self) -> None:
        """ZeroMQ does not say whose handshake ended: of several at once, the first."""
        for descriptor in self.shaking:
            del self.shaking[descriptor]
            break

    def _refused(self, event: zmq.Event) -> None:
        error = AuthenticationError(f"{self.endpoint}: refused: {_REFUSALS[event]}")
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


class Sentry:
    """The thread, its sockets, and the queue of what it is asked to watch."""

    def __init__(self) -> None:
        self._wake_in, self._wake_out = _socket_pair(process.context())
        self._asked: deque[tuple[str, Any, Any]] = deque()
        self._lock = threading.Lock()
        self._watched: dict[zmq.Socket[Any], tuple[str, Any]] = {}
        self._thread = threading.Thread(target=self._run, name="caraml-sentry", daemon=True)
        self._thread.start()
        process.close_at_exit(self)

    def watch(self, raw: zmq.Socket[Any], link: Link) -> None:
        """Report the connections of `raw` to `link` until its monitor is disabled."""
        name = f"inproc://caraml-monitor-{next(_numbers)}"
        raw.monitor(name, _EVENTS)
        monitor = _private_socket(raw.context, zmq.PAIR)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        monitor.connect(name)
        self._ask("monitor", monitor, link)

    def guard(self, context: zmq.Context[Any], gate: Gate) -> None:
        """Answer for `gate` who may connect to the sockets of this context that ask for keys.

        Raises SocketError where the program's own context has an authenticator of its own.
        """
        with self._lock:
            answers: zmq.Socket[Any] | None = (
                _private_socket(context, zmq.REP) if gate.claim(context) else None
            )
            if answers is not None:
                try:
                    answers.bind(_ZAP)
                except zmq.ZMQError as error:
                    answers.close(0)
                    gate.disclaim(context)
                    reason = "the context given has an authenticator already; give another or none"
                    raise SocketError(error.errno, f"{_ZAP}: {reason}") from error
        if answers is not None:
            self._ask("zap", answers, gate)

    def _ask(self, verb: str, subject: Any, detail: Any) -> None:
        with self._lock:
            self._asked.append((verb, subject, detail))
            self._wake_in.send(b"")

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._wake_out, zmq.POLLIN)
        while True:
            try:
                ready = poller.poll()
            except zmq.ZMQError:
                self._drop_terminated(poller)
                continue
            for raw, _ in ready:
                if raw is self._wake_out:
                    if not self._obey(poller):
                        return
                elif raw in self._watched:
                    self._serve(poller, raw)
                else:
                    self._drop_terminated(poller)

    def _obey(self, poller: zmq.Poller) -> bool:
        self._wake_out.recv()
        verb, subject, detail = self._asked.popleft()
        if verb == "stop":
            for raw in [*self._watched, self._wake_out]:
                raw.close(0)
            return False
        self._watched[subject] = verb, detail
        poller.register(subject, zmq.POLLIN)
        return True

    def _serve(self, poller: zmq.Poller, raw: zmq.Socket[Any]) -> None:
        verb, detail = self._watched[raw]
        try:
            if verb == "zap":
                raw.send_multipart(detail.answer(raw.recv_multipart(zmq.NOBLOCK)))
                return
            event, value = _event.unpack(raw.recv_multipart(zmq.NOBLOCK)[0])
        except (zmq.ZMQError, ValueError, IndexError, struct.error):
            self._drop(poller, raw)
            return
        if event == zmq.Event.MONITOR_STOPPED:
            self._drop(poller, raw)
        else:
            detail.handle(zmq.Event(event), value)

    def _drop(self, poller: zmq.Poller, raw: zmq.Socket[Any]) -> None:
        poller.unregister(raw)
        del self._watched[raw]
        raw.close(0)

    def _drop_terminated(self, poller: zmq.Poller) -> None:
        """Let a context end that its owner terminates while we hold sockets of it."""
        for raw in list(self._watched):
            try:
                raw.getsockopt(zmq.EVENTS)
            except zmq.ZMQError:
                self._drop(poller, raw)

    def at_exit(self, stage: int) -> None:
        """Stop the thread and close its sockets."""
        if stage == 3 and self._thread.is_alive():
            self._ask("stop", None, None)
            self._thread.join(0.5)
            self._wake_in.close(0)

    def in_use(self) -> bool:
        """Whether the thread still holds sockets."""
        return self._thread.is_alive()


def _private_socket(context: Any, mode: int) -> zmq.Socket[Any]:
    """A socket that `context.destroy()` of a program does not close under our hands."""
    contexts: Any = zmq.Context
    private: zmq.Socket[Any] = contexts.shadow(context.underlying).socket(mode)
    private.linger = 0
    return private


def _socket_pair(context: zmq.Context[Any]) -> tuple[zmq.Socket[Any], zmq.Socket[Any]]:
    name = f"inproc://caraml-sentry-{id(context)}"
    near, far = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
    near.linger = far.linger = 0
    near.bind(name)
    far.connect(name)
    return near, far


class _State:
    sentry: Sentry | None = None


_lock = threading.Lock()
_numbers = itertools.count()


def sentry() -> Sentry:
    """This process's sentry, started on first use."""
    with _lock:
        if _State.sentry is None:
            _State.sentry = Sentry()
        return _State.sentry


def _forget() -> None:
    global _lock
    _lock = threading.Lock()
    _State.sentry = None


process.after_fork(_forget)
