"""What a process owns of ZeroMQ: one context, made on first use and again after a fork, closed at exit.
Sockets call it.

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
_STAGES = ((1, 0.8), (2, 1.1), (3, 1.6))  # what each must have ended by, seconds after the exit began
PARENT_CHECK = 0.5
_MAX_SOCKETS = 65536


class _State:
    context: zmq.Context[Any] | None = None
    pid = -1
    closing = False


_lock = threading.Lock()
_at_exit: weakref.WeakSet[Any] = weakref.WeakSet()
_after_fork: list[Callable[[], None]] = []


def context() -> zmq.Context[Any]:
    """The context this process's sockets share when they are not given one."""
    with _lock:
        if _State.context is None or _State.context.closed or _State.pid != os.getpid():
            _State.context = zmq.Context(io_threads=max(1, min(4, (os.cpu_count() or 1) // 4)))
            _State.context.set(zmq.MAX_SOCKETS, _MAX_SOCKETS)
            _State.pid = os.getpid()
        return _State.context


def closing() -> bool:
    """True from the moment the interpreter exits: blocked calls give up."""
    return _State.closing


def close_at_exit(resource: Any) -> None:
    """Have `resource.at_exit(stage)` called at exit, stage 1 (stop working) before 2 (close) before 3 (the
    sentry, which closing needs); again, in turn with the others, while it returns True and there is time.
    """
    _at_exit.add(resource)


def live(kind: type) -> list[Any]:
    """The resources of one kind that would be closed at exit."""
    return [resource for resource in list(_at_exit) if isinstance(resource, kind)]


def after_fork(forget: Callable[[], None]) -> None:
    """Have `forget()` called in every forked child, before anything else runs there."""
    _after_fork.append(forget)


def end_with_parent() -> None:
    """In a child process: end it when its parent is gone, however that ended."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK)
        os._exit(1)

    threading.Thread(target=watch, name="caraml-parent", daemon=True).start()


def _forget() -> None:
    global _lock, _at_exit
    _lock = threading.Lock()  # another thread may have held the old one when we were forked
    _State.context = None
    for forget in _after_fork:
        forget()
    _at_exit = weakref.WeakSet()


@atexit.register
def _close() -> None:  # pyright: ignore[reportUnusedFunction]
    _State.closing = True
    begin = time.monotonic()
    for stage, until in _STAGES:
        busy = list(_at_exit)
        while busy := [resource for resource in busy if _told(resource, stage)]:
            if time.monotonic() - begin > until:
                break
            time.sleep(0.001)
    if _State.context is not None and _State.pid == os.getpid() and not _State.context.closed:
        ending = threading.Thread(target=_State.context.destroy, args=(EXIT_LINGER_MS,), daemon=True)
        if not any(resource.in_use() for resource in list(_at_exit)):
            ending.start()
            ending.join(max(0.1, _EXIT - (time.monotonic() - begin)))
        _never_freed.append(_State.context)


def _told(resource: Any, stage: int) -> bool:
    """Whether the resource asks to be called again; one that fails takes no other's chance to end."""
    try:
        return bool(resource.at_exit(stage))
    except Exception:
        log.exception("%r could not end its work before the exit", resource)
        return False


_never_freed: list[Any] = []
os.register_at_fork(after_in_child=_forget)
