"""The process's one background thread: it waits on internal sockets and calls what handles each."""

import select
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import zmq

from caraml import process

Handle: TypeAlias = Callable[[zmq.Socket[Any]], bool]
OnArrival: TypeAlias = Callable[[int], None]


class Watch(Protocol):
    """What is looked at every so often."""

    def wait_ms(self) -> int:
        """How soon; negative for not before a socket is readable again."""
        ...

    def look(self) -> None:
        """Do what is to do now."""
        ...


class BackgroundThread:
    """Sleeps until a socket of its own is readable or a watch is due; no message of a program passes by."""

    def __init__(self) -> None:
        self._wake_in, self._wake_out = _socket_pair(process.context())
        self._added: deque[tuple[zmq.Socket[Any], Handle] | None] = deque()
        self._lock = threading.Lock()
        self._handlers: dict[zmq.Socket[Any], Handle] = {}
        self._watches: list[weakref.ref[Watch]] = []
        self._looked_at = 0.0
        self._arrivals = select.epoll() if sys.platform == "linux" else None
        self._on_arrival: dict[int, weakref.WeakMethod[OnArrival]] = {}
        self._thread = threading.Thread(target=self._run, name="caraml-background", daemon=True)
        self._thread.start()
        process.close_at_exit(self)

    def add(self, raw: zmq.Socket[Any], handle: Handle) -> None:
        """Call `handle(raw)` whenever the socket is readable, until it returns False; the thread then closes
        the socket.
        """
        self._send((raw, handle))

    def watch(self, watch: Watch) -> None:
        """Look at it as long as somebody has it."""
        with self._lock:
            self._watches = [known for known in self._watches if known() is not None]
            self._watches.append(weakref.ref(watch))

    def on_arrival(self, descriptor: int, handle: OnArrival) -> None:
        """Call the method `handle(descriptor)` whenever bytes arrive, until its object or the connection is
        gone. Linux only. Call in the background thread.
        """
        if self._arrivals is not None:
            self._on_arrival[descriptor] = weakref.WeakMethod(handle)
            self._arrivals.register(descriptor, select.EPOLLIN | select.EPOLLET)

    def _tell_arrivals(self, arrivals: select.epoll) -> None:
        for descriptor, _ in arrivals.poll(0):
            if (handle := self._on_arrival.get(descriptor, _nothing)()) is not None:
                handle(descriptor)

    def _look(self) -> int | None:
        """Look at what is due; the milliseconds until the next time, None for no time."""
        watches = [watch for known in self._watches if (watch := known()) is not None]
        waits = [wait for watch in watches if (wait := watch.wait_ms()) >= 0]
        if not waits:
            return None
        left = min(waits) - int((time.monotonic() - self._looked_at) * 1000)
        if left > 0:
            return left
        for watch in watches:
            watch.look()
        self._looked_at = time.monotonic()
        return min(waits)

    def _send(self, addition: tuple[zmq.Socket[Any], Handle] | None) -> None:
        with self._lock:
            self._added.append(addition)
            self._wake_in.send(b"")

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._wake_out, zmq.POLLIN)
        if self._arrivals is not None:
            poller.register(self._arrivals.fileno(), zmq.POLLIN)
        while True:
            try:
                ready = poller.poll(self._look())
            except zmq.ZMQError:
                self._drop_terminated(poller)
                continue
            for raw, _ in ready:
                if raw is self._wake_out:
                    if not self._take_addition(poller):
                        return
                elif isinstance(raw, int):
                    if self._arrivals is not None:
                        self._tell_arrivals(self._arrivals)
                elif raw not in self._handlers:
                    self._drop_terminated(poller)
                elif not self._handlers[raw](raw):
                    self._drop(poller, raw)

    def _take_addition(self, poller: zmq.Poller) -> bool:
        """Register the next socket; False when the thread is to end."""
        self._wake_out.recv()
        addition = self._added.popleft()
        if addition is None:
            for raw in [*self._handlers, self._wake_out]:
                raw.close(0)
            return False
        raw, self._handlers[raw] = addition
        poller.register(raw, zmq.POLLIN)
        return True

    def _drop(self, poller: zmq.Poller, raw: zmq.Socket[Any]) -> None:
        poller.unregister(raw)
        del self._handlers[raw]
        raw.close(0)

    def _drop_terminated(self, poller: zmq.Poller) -> None:
        """Let a context end that its owner terminates while we hold sockets of it."""
        for raw in list(self._handlers):
            try:
                raw.getsockopt(zmq.EVENTS)
            except zmq.ZMQError:
                self._drop(poller, raw)

    def at_exit(self, stage: int) -> None:
        """Stop the thread and close its sockets."""
        if stage == 3 and self._thread.is_alive():
            self._send(None)
            self._thread.join(0.5)
            self._wake_in.close(0)

    def in_use(self) -> bool:
        """Whether the thread still holds sockets."""
        return self._thread.is_alive()


def _nothing() -> None:
    return None


def private_socket(context: Any, mode: int) -> zmq.Socket[Any]:
    """A socket that `context.destroy()` of a program does not close under our hands."""
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
    """This process's thread, started on first use."""
    with _lock:
        if _State.thread is None:
            _State.thread = BackgroundThread()
        return _State.thread


def _forget() -> None:
    global _lock
    _lock = threading.Lock()
    _State.thread = None


process.after_fork(_forget)
