"""The monitor of a socket's connections, and the background thread that reads it."""

import itertools
import logging
import select
import struct
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeAlias

import zmq

from caraml import process
from caraml.errors import AuthenticationError

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
    zmq.Event.HANDSHAKE_FAILED_AUTH: "the server does not allow the client's key",
    zmq.Event.HANDSHAKE_FAILED_PROTOCOL: "a side has no key or another security mechanism, or is not ZeroMQ",
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL: "closed during the handshake: a wrong server key, or not ZeroMQ",
}
_event = struct.Struct("=Hi")  # as ZeroMQ writes it; pyzmq's own reader loads asyncio
_RETRY_PAUSE = 1.0
_MAX_UNEXPLAINED = 2  # a restarting server closes handshakes without a reason, too


class ConnectionState:
    """The state of a socket's connections: refusals, losses, and the error that calls raise."""

    def __init__(self, endpoint: str, bind: bool, *, keyed: bool = False) -> None:
        self.endpoint = endpoint
        self.bind = bind
        self.keyed = keyed
        self.budget: Any = None  # has opened(), closed() and end()
        self.fault: AuthenticationError | None = None
        self.denied: deque[AuthenticationError] = deque(maxlen=100)
        self.denied_count = 0
        self.lost = 0
        self.changes = 0  # counts losses and faults
        self.handshakes = 0
        self.counts_unsent = False
        self.counting_unsent = False  # no peer is connected, and sent messages are counted
        self.unsent = 0
        self.unexplained_refusals = 0
        self.refused_at = 0.0
        self.handshaking: dict[int, None] = {}

    def handle(self, event: zmq.Event, descriptor: int) -> None:
        """Handle one event of the monitor."""
        if self.budget is not None and event in (zmq.Event.ACCEPTED, zmq.Event.CONNECTED):
            self.budget.opened(descriptor)
        elif self.budget is not None and event == zmq.Event.DISCONNECTED:
            self.budget.closed(descriptor)
        if event == zmq.Event.ACCEPTED:
            self.handshaking[descriptor] = None
        elif event == zmq.Event.HANDSHAKE_SUCCEEDED:
            self.fault, self.unexplained_refusals = None, 0
            self.handshakes += 1
            self.counting_unsent = False
            self._end_oldest_handshake()
        elif event == zmq.Event.DISCONNECTED:
            if descriptor in self.handshaking:
                del self.handshaking[descriptor]
                if self.keyed:
                    self._refused(zmq.Event.HANDSHAKE_FAILED_PROTOCOL)
            else:
                self.lost += 1
                self.changes += 1
                self._restart_count()
        elif event in _HANDSHAKE_ERRORS:
            self._end_oldest_handshake()
            self._refused(event)

    def count_unsent(self) -> None:
        """Count the messages that are sent while no peer is connected."""
        self.counts_unsent = True
        self._restart_count()

    def _restart_count(self) -> None:
        self.unsent = 0
        self.counting_unsent = self.counts_unsent

    def waiting_messages(self) -> int:
        """Return the number of messages that wait for a peer to connect."""
        return self.unsent if self.counting_unsent else 0

    def _end_oldest_handshake(self) -> None:
        """Forget the oldest handshake: ZeroMQ does not say which one ended."""
        for descriptor in self.handshaking:
            del self.handshaking[descriptor]
            break

    def _refused(self, event: zmq.Event) -> None:
        """Record a refusal; a connecting socket fails after a clear reason, or several without one."""
        if self.bind and not self.keyed and event == zmq.Event.HANDSHAKE_FAILED_NO_DETAIL:
            return  # such as a TCP probe of Kubernetes
        error = AuthenticationError(f"{self.endpoint}: refused: {_HANDSHAKE_ERRORS[event]}")
        self.denied_count += 1
        self.denied.append(error)
        if self.denied_count == 1:
            log.warning("%s", error)
        if self.bind:
            return
        if time.monotonic() - self.refused_at > _RETRY_PAUSE:
            # Refusals follow each other quickly: after a pause, the server was only slow to answer.
            self.unexplained_refusals = 0
        self.refused_at = time.monotonic()
        self.unexplained_refusals += event == zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
        if event != zmq.Event.HANDSHAKE_FAILED_NO_DETAIL or self.unexplained_refusals > _MAX_UNEXPLAINED:
            self.fault = error
            self.changes += 1


def monitor(raw: zmq.Socket[Any], link: ConnectionState) -> None:
    """Have the background thread report the events of `raw` to `link` until its monitor is disabled."""
    name = f"inproc://caraml-monitor-{next(_numbers)}"
    raw.monitor(name, _EVENTS)
    events = private_socket(raw.context, zmq.PAIR)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    events.connect(name)
    background_thread().add(events, partial(_read_event, link))


def _read_event(link: ConnectionState, events: zmq.Socket[Any]) -> bool:
    """Pass the next event to `link`; return False after the last one."""
    try:
        event, descriptor = _event.unpack(events.recv_multipart(zmq.NOBLOCK)[0])
        if event == zmq.Event.MONITOR_STOPPED:
            return False
        link.handle(zmq.Event(event), descriptor)
        return True
    except (zmq.ZMQError, ValueError, IndexError, struct.error):
        return False


_numbers = itertools.count()

Handle: TypeAlias = Callable[[zmq.Socket[Any]], bool]
OnArrival: TypeAlias = Callable[[int], None]


class Periodic(Protocol):
    """An object whose `look()` the background thread calls periodically."""

    def wait_ms(self) -> int:
        """Return the milliseconds from the last look to the next; negative for none."""
        ...

    def look(self) -> None:
        """Do the work that is due."""
        ...


class BackgroundThread:
    """A thread for monitors, ZAP requests and periodic tasks; messages of programs never pass through it."""

    def __init__(self) -> None:
        self._wake_sender, self._wake_receiver = _socket_pair(process.context())
        self._added: deque[tuple[zmq.Socket[Any], Handle] | None] = deque()
        self._lock = threading.Lock()
        self._handlers: dict[zmq.Socket[Any], Handle] = {}
        self._periodic: list[weakref.ref[Periodic]] = []
        self._looked_at = 0.0
        self._epoll = select.epoll() if sys.platform == "linux" else None
        self._on_arrival: dict[int, weakref.WeakMethod[OnArrival]] = {}
        self._thread = threading.Thread(target=self._run, name="caraml-background", daemon=True)
        self._thread.start()
        process.close_at_exit(self)

    def add(self, raw: zmq.Socket[Any], handle: Handle) -> None:
        """Call `handle(raw)` whenever the socket is readable; close the socket when it returns False."""
        self._send((raw, handle))

    def add_periodic(self, task: Periodic) -> None:
        """Call `look()` of an object periodically, as long as it lives; the call does not wake the thread."""
        with self._lock:
            self._periodic = [reference for reference in self._periodic if reference() is not None]
            self._periodic.append(weakref.ref(task))

    def on_arrival(self, descriptor: int, handle: OnArrival) -> None:
        """Call the method `handle(descriptor)` whenever bytes arrive, until its object or the connection is
        gone.

        Only on Linux, and only from the background thread.
        """
        if self._epoll is not None:
            self._on_arrival[descriptor] = weakref.WeakMethod(handle)
            self._epoll.register(descriptor, select.EPOLLIN | select.EPOLLET)

    def _report_arrivals(self, arrivals: select.epoll) -> None:
        for descriptor, _ in arrivals.poll(0):
            if (handle := self._on_arrival.get(descriptor, _nothing)()) is not None:
                handle(descriptor)

    def _look(self) -> int | None:
        """Call `look()` of all tasks once the first is due; return the milliseconds until then, or None."""
        tasks = [task for reference in self._periodic if (task := reference()) is not None]
        waits = [wait for task in tasks if (wait := task.wait_ms()) >= 0]
        if not waits:
            return None
        left = min(waits) - int((time.monotonic() - self._looked_at) * 1000)
        if left > 0:
            return left
        for task in tasks:
            task.look()
        self._looked_at = time.monotonic()
        return min(waits)

    def _send(self, added: tuple[zmq.Socket[Any], Handle] | None) -> None:
        with self._lock:
            self._added.append(added)
            self._wake_sender.send(b"")

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._wake_receiver, zmq.POLLIN)
        if self._epoll is not None:
            poller.register(self._epoll.fileno(), zmq.POLLIN)
        while True:
            try:
                ready = poller.poll(self._look())
            except zmq.ZMQError:
                self._drop_terminated(poller)
                continue
            for raw, _ in ready:
                if raw is self._wake_receiver:
                    if not self._register_added(poller):
                        return
                elif isinstance(raw, int):
                    if self._epoll is not None:
                        self._report_arrivals(self._epoll)
                elif raw not in self._handlers:
                    self._drop_terminated(poller)
                elif not self._handlers[raw](raw):
                    self._drop(poller, raw)

    def _register_added(self, poller: zmq.Poller) -> bool:
        """Register the next socket; return False when the thread is to end."""
        self._wake_receiver.recv()
        added = self._added.popleft()
        if added is None:
            for raw in [*self._handlers, self._wake_receiver]:
                raw.close(0)
            return False
        raw, self._handlers[raw] = added
        poller.register(raw, zmq.POLLIN)
        return True

    def _drop(self, poller: zmq.Poller, raw: zmq.Socket[Any]) -> None:
        poller.unregister(raw)
        del self._handlers[raw]
        raw.close(0)

    def _drop_terminated(self, poller: zmq.Poller) -> None:
        """Close the sockets of contexts that their owner terminates."""
        for raw in list(self._handlers):
            try:
                raw.getsockopt(zmq.EVENTS)
            except zmq.ZMQError:
                self._drop(poller, raw)

    def at_exit(self, stage: int) -> None:
        """Stop the thread in the last stage: in the earlier ones sockets close, and may still need it."""
        if stage == 3 and self._thread.is_alive():
            self._send(None)
            self._thread.join(0.5)
            self._wake_sender.close(0)

    def in_use(self) -> bool:
        """Return whether the thread still holds sockets."""
        return self._thread.is_alive()


def _nothing() -> None:
    return None


def private_socket(context: Any, mode: int) -> zmq.Socket[Any]:
    """Return a socket that the program's `context.destroy()` does not close."""
    contexts: Any = zmq.Context
    private: zmq.Socket[Any] = contexts.shadow(context.underlying).socket(mode)
    private.linger = 0
    return private


def _socket_pair(context: zmq.Context[Any]) -> tuple[zmq.Socket[Any], zmq.Socket[Any]]:
    name = f"inproc://caraml-background-{id(context)}"
    near, far = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
    near.linger = far.linger = 0
    near.bind(name)
    far.connect(name)
    return near, far


class _State:
    thread: BackgroundThread | None = None


_lock = threading.Lock()


def background_thread() -> BackgroundThread:
    """Return the background thread of this process, started on first use."""
    with _lock:
        if _State.thread is None:
            _State.thread = BackgroundThread()
        return _State.thread


def _forget() -> None:
    global _lock
    _lock = threading.Lock()
    _State.thread = None


process.after_fork(_forget)
