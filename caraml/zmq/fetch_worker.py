"""The processes of a DataFetcher: each thread asks for a request, sends it to the server, and shares the
reply.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from caraml import process, serializers
from caraml.inmemory.pool import SharedPool
from caraml.limits import Limits
from caraml.pickled import pickle_codec
from caraml.zmq.endpoint import SocketOptions
from caraml.zmq.request_reply import ZmqClient

log = logging.getLogger("caraml")

WAIT = 0.05


class FetchPlan(NamedTuple):
    """What a worker needs to know; it is forked, so nothing here needs to be pickled."""

    master: str
    key: bytes
    limits: Limits
    remote: SocketOptions
    serializer: serializers.Serializer
    deserializer: serializers.Serializer
    threads: int
    handler: Callable[[Any], Any] | None
    timeout: float
    pool_bytes: int


def work(plan: FetchPlan, worker: int) -> None:
    """The worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    process.end_with_parent()
    threads = [
        threading.Thread(target=_fetch_all, args=(plan, (worker, number)), daemon=True)
        for number in range(plan.threads)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _fetch_all(plan: FetchPlan, worker: tuple[int, int]) -> None:
    """Until told that there is nothing more. A thread that cannot go on ends the process: the master sees
    that, and gives what it was fetching to another. There is no deadline: the master answers when its handler
    has time, and `end_with_parent` knows when it never will.
    """
    try:
        _ask_and_fetch(plan, worker)
    except BaseException:
        log.exception("DataFetcher worker failed")
        os._exit(1)


def _ask_and_fetch(plan: FetchPlan, worker: tuple[int, int]) -> None:
    encode, decode = pickle_codec(plan.master, False, plan.key, plan.limits)
    pool = SharedPool(plan.pool_bytes)
    remote = ZmqClient(
        serializer=plan.serializer, deserializer=plan.deserializer, timeout=plan.timeout, **plan.remote
    )
    master = ZmqClient(address=plan.master, serializer=encode, limits=plan.limits)
    try:
        report: tuple[Any, ...] = ("ready", worker)
        while True:
            answer = decode(master.request(report), ())
            if answer[0] == "end":
                return
            report = ("ready", worker)
            if answer[0] == "fetch":
                report = _fetch(remote, pool, plan.handler, worker, *answer[1:])
            else:
                threading.Event().wait(WAIT)
    finally:
        remote.close(0)
        master.close(0)


def _fetch(
    remote: ZmqClient,
    pool: SharedPool,
    handler: Callable[[Any], Any] | None,
    worker: tuple[int, int],
    task: int,
    request: Any,
) -> tuple[Any, ...]:
    try:
        reply = remote.request(request)
        return "done", worker, task, pool.put(reply if handler is None else handler(reply))
    except Exception as error:
        return "failed", worker, task, f"{type(error).__name__}: {error}"
