"""The ZeroMQ contexts of a process: made on first use and again after a fork, closed at exit.

At exit loops are stopped, what is unsent or unacknowledged gets up to a second in all, and nothing blocks the
interpreter for more than two.
"""

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import zmq

log = logging.getLogger("caraml")

EXIT_LINGER_MS = 800
_EXIT = 1.8
_STAGES = ((1, 0.8), (2, 1.1), (3, 1.6))  # (stage, its deadline in seconds after the exit began)
PARENT_CHECK = 0.5
_MAX_SOCKETS = 65536
_LARGEST_KEPT = (32 << 20) - (64 << 10)


class _State:
    contexts: dict[bool, zmq.Context[Any]] = {}  # with and without keys
    pid = -1
    closing = False
    closing_since = 0.0


_lock = threading.Lock()
_at_exit: weakref.WeakSet[Any] = weakref.WeakSet()
_after_fork: list[Callable[[], None]] = []


def context(keyed: bool = False) -> zmq.Context[Any]:
    """Return the context of sockets that are given none; those with keys have one of their own.

    In a context with a ZAP handler ZeroMQ asks it about every handshake, also those of connecting sockets
    without keys. A socket that is closed while it waits for the answer never gets it, and its messages wait
    until the handshake times out and begins again.
    """
    with _lock:
        if _State.pid != os.getpid():
            _State.contexts = {}
            _State.pid = os.getpid()
        current = _State.contexts.get(keyed)
        if current is None or current.closed:
            current = _State.contexts[keyed] = zmq.Context(io_threads=_io_threads())
            current.set(zmq.MAX_SOCKETS, _MAX_SOCKETS)
            _keep_pages()
        return current


def _keep_pages() -> None:
    """Have malloc keep the pages of large messages for the next ones, instead of faulting in each again.

    glibc keeps twice what the largest freed allocation was, of up to 32 MiB: so one is allocated and freed
    here, and never written to. It does nothing where MALLOC_TRIM_THRESHOLD_ or MALLOC_MMAP_THRESHOLD_ is set.
    """
    bytearray(_LARGEST_KEPT)


def _io_threads() -> int:
    return max(1, min(4, (os.cpu_count() or 1) // 4))


def closing() -> bool:
    """Return whether the interpreter is exiting: blocked calls give up."""
    return _State.closing


def exiting_for() -> float:
    """Return the seconds since the exit began."""
    return time.monotonic() - _State.closing_since


def close_at_exit(resource: Any) -> None:
    """Have `resource.at_exit(stage)` called at exit, stage 1 (stop working) before 2 (close) before 3 (the
    background thread, which closing needs); again, in turn with the others, while it returns True and there
    is time.
    """
    _at_exit.add(resource)


def live(kind: type) -> list[Any]:
    """Return the resources of one kind that would be closed at exit."""
    return [resource for resource in list(_at_exit) if isinstance(resource, kind)]


def after_fork(forget: Callable[[], None]) -> None:
    """Have `forget()` called in every forked child, before anything else runs there."""
    _after_fork.append(forget)


def end_with_parent() -> None:
    """End this child process when its parent is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK)
        os._exit(1)

    threading.Thread(target=watch, name="caraml-parent", daemon=True).start()


def _forget() -> None:
    global _lock, _at_exit
    _lock = threading.Lock()  # another thread may have held the old one when we were forked
    _State.contexts = {}
    for forget in _after_fork:
        forget()
    _at_exit = weakref.WeakSet()


@atexit.register
def _close() -> None:  # pyright: ignore[reportUnusedFunction]
    _State.closing = True
    begin = _State.closing_since = time.monotonic()
    for stage, until in _STAGES:
        busy = list(_at_exit)
        while busy := [resource for resource in busy if _notify(resource, stage)]:
            if time.monotonic() - begin > until:
                break
            time.sleep(0.001)
    if _State.pid == os.getpid():
        _destroy([context for context in _State.contexts.values() if not context.closed], begin + _EXIT)


def _destroy(contexts: list[zmq.Context[Any]], until: float) -> None:
    """Destroy contexts, in threads: one may wait for its unsent messages."""
    _never_freed.extend(contexts)
    if any(resource.in_use() for resource in list(_at_exit)):
        return
    ending = [
        threading.Thread(target=context.destroy, args=(EXIT_LINGER_MS,), daemon=True) for context in contexts
    ]
    for thread in ending:
        thread.start()
    for thread in ending:
        thread.join(max(0.1, until - time.monotonic()))


def _notify(resource: Any, stage: int) -> bool:
    """Call `at_exit` of a resource; return whether it asks to be called again. An error is logged."""
    try:
        return bool(resource.at_exit(stage))
    except Exception:
        log.exception("%r failed to stop at exit", resource)
        return False


_never_freed: list[Any] = []
os.register_at_fork(after_in_child=_forget)
