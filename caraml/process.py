"""The ZeroMQ contexts of a process: created on first use, also after a fork, and closed at exit.

At exit loops stop. Unacknowledged messages and messages without a peer get the first 0.8 s, messages to
connected peers up to 0.8 s more; nothing blocks the interpreter for more than two seconds.
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

EXIT_LINGER_MS = 800  # also how long after the begin of the exit a socket waits for a peer
_EXIT_SECONDS = 1.8
_STAGES = ((1, 0.8), (2, 1.1), (3, 1.6))  # (stage, its deadline in seconds after the exit began)
PARENT_CHECK = 0.5
_MAX_SOCKETS = 65536
_KEPT_BYTES = (32 << 20) - (64 << 10)


class _State:
    contexts: dict[bool, zmq.Context[Any]] = {}  # by whether the sockets have keys
    pid = -1
    closing = False
    closing_since = 0.0


_lock = threading.Lock()
_at_exit: weakref.WeakSet[Any] = weakref.WeakSet()
_after_fork: list[Callable[[], None]] = []


def context(keyed: bool = False) -> zmq.Context[Any]:
    """Return the default context of all sockets without keys, or that of all sockets with keys.

    In a context with a ZAP handler ZeroMQ calls it for every handshake, also of connecting sockets without
    keys. If such a socket is closed before the reply, its unsent messages wait until the handshake times out
    and is repeated.
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
    """Make malloc keep the pages of freed messages, so that the next ones do not fault them in again.

    glibc keeps up to twice the size of the largest freed allocation (32 MiB at most), so one is allocated and
    freed here. It has no effect where MALLOC_TRIM_THRESHOLD_ or MALLOC_MMAP_THRESHOLD_ is set.
    """
    bytearray(_KEPT_BYTES)


def _io_threads() -> int:
    return max(1, min(4, (os.cpu_count() or 1) // 4))


def closing() -> bool:
    """Return whether the interpreter is exiting."""
    return _State.closing


def exiting_for() -> float:
    """Return the seconds since the exit began."""
    return time.monotonic() - _State.closing_since


def close_at_exit(resource: Any) -> None:
    """Register a resource: at exit its `at_exit(stage)` is called, repeatedly while it returns True.

    In stage 1 loops stop and senders wait for acknowledgements, in stage 2 sockets close; stage 3 ends the
    background thread.
    """
    _at_exit.add(resource)


def live_resources(kind: type) -> list[Any]:
    """Return the registered resources of a class."""
    return [resource for resource in list(_at_exit) if isinstance(resource, kind)]


def after_fork(forget: Callable[[], None]) -> None:
    """Call `forget()` in every forked child, before anything else runs there."""
    _after_fork.append(forget)


def end_with_parent() -> None:
    """End this process when its parent has ended."""
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
        pending = list(_at_exit)
        while pending := [resource for resource in pending if _notify(resource, stage)]:
            if time.monotonic() - begin > until:
                break
            time.sleep(0.001)
    if _State.pid == os.getpid():
        _destroy(
            [context for context in _State.contexts.values() if not context.closed], begin + _EXIT_SECONDS
        )


def _destroy(contexts: list[zmq.Context[Any]], until: float) -> None:
    """Destroy contexts in threads, since each may wait for unsent messages; none while a thread uses one."""
    _never_freed.extend(contexts)
    if any(resource.in_use() for resource in list(_at_exit)):
        return
    destroyers = [
        threading.Thread(target=context.destroy, args=(EXIT_LINGER_MS,), daemon=True) for context in contexts
    ]
    for thread in destroyers:
        thread.start()
    for thread in destroyers:
        thread.join(max(0.1, until - time.monotonic()))


def _notify(resource: Any, stage: int) -> bool:
    """Call `at_exit` of a resource; return whether to call it again. An error is logged."""
    try:
        return bool(resource.at_exit(stage))
    except Exception:
        log.exception("%r failed to stop at exit", resource)
        return False


_never_freed: list[Any] = []  # freeing a context would wait for its sockets
os.register_at_fork(after_in_child=_forget)
