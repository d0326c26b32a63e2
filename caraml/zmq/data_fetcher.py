"""DataFetcher: many requests to one server by worker processes, each reply handed over through shared memory.

>>> from caraml.zmq.request_reply import ZmqServer
>>> server = ZmqServer(port=0, serializer="msgpack", deserializer="msgpack")
>>> _ = server.start_loop(lambda request: request * 2)
>>> replies = {}
>>> def handle(request, shared):
...     replies[request] = shared.data
>>> fetcher = DataFetcher(handle, "127.0.0.1", server.socket.port, range(5), n_workers=1)
>>> fetcher.start(); fetcher.join()
>>> sorted(replies.items())
[(0, 0), (1, 2), (2, 4), (3, 6), (4, 8)]
>>> server.close()

**Promise.** Every request is answered by the handler once, in no particular order. A worker that dies is
replaced and what it was fetching is fetched again (so the server may serve a request twice). A reply that
finds no room in shared memory comes through the socket.
"""

import logging
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from caraml import process, serializers
from caraml.address import resolve
from caraml.errors import CaramlError, SharedMemoryError
from caraml.inmemory.pool import MAX_BYTES, Shared, SharedPool, get
from caraml.limits import DEFAULT_LIMITS, Limits
from caraml.zmq.endpoint import SocketOptions
from caraml.zmq.request_reply import ZmqClient

log = logging.getLogger("caraml")

_TICK = 0.1
_ATTEMPTS = 3
_STILLBORN = 3
_END_WAIT = 2.0
_forking = multiprocessing.get_context("fork")


class DataFetcher(threading.Thread):
    """A daemon thread: `start()`, `join()`, `stop()`.

    `handler(request, shared)` is called in this process, one at a time; `shared.data` is the reply,
    `shared.delete()` lets go of it. `requests` is iterated in the thread, as fast as replies come. The server
    is at `remote_host` and `remote_port`, or is the service `remote_service`. There are `n_workers` processes
    with `threads_per_worker` each; they are reached through pipes, and `worker_comm_port` is accepted and
    ignored. `remote_serializer` is of the requests, `remote_deserializer` (or `remote_deserialzer`) of the
    replies, which lie in at most `pool_bytes` of shared memory. `worker_handler(reply)` runs in the worker,
    on every reply. `timeout` seconds for one request (negative: for ever); one that fails three times is in
    `failures`, and `join` raises for it. `handler` may take as long as it likes: the workers wait. `limits`
    are those of the server's replies.
    """

    def __init__(
        self,
        handler: Callable[[Any, Shared], object],
        remote_host: str | None = None,
        remote_port: int | None = None,
        requests: Iterable[Any] = (),
        worker_comm_port: int | None = None,
        remote_serializer: serializers.Serializer = "pyarrow",
        remote_deserialzer: serializers.Serializer = "pyarrow",
        n_workers: int = 2,
        threads_per_worker: int = 2,
        worker_handler: Callable[[Any], Any] | None = None,
        *,
        remote_deserializer: serializers.Serializer = None,
        remote_service: str | None = None,
        timeout: float = -1,
        pool_bytes: int = MAX_BYTES,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        super().__init__(name="caraml-fetcher", daemon=True)
        remote = SocketOptions(host=remote_host, port=remote_port, service=remote_service, limits=limits)
        # A wrong address raises in the caller, not in every worker.
        resolve(bind=False, host=remote_host, port=remote_port, service=remote_service)
        self.handler = handler
        self.failures: list[tuple[Any, str]] = []
        self.refetched = 0
        self._requests: Iterator[Any] = iter(requests)
        self._again: deque[_Task] = deque()
        self._fetching: dict[Any, _Task] = {}  # pipe -> task
        self._workers: dict[Any, Any] = {}  # by the pipe of each of their threads
        self._n_workers, self._threads = n_workers, threads_per_worker
        self._stillborn = 0
        self._stopped = False
        self._error: BaseException | None = None
        self._plan = FetchPlan(
            remote,
            remote_serializer,
            remote_deserialzer if remote_deserializer is None else remote_deserializer,
            worker_handler,
            timeout,
            pool_bytes // max(1, n_workers * threads_per_worker),
        )

    def start(self) -> None:
        """Start the workers and the thread."""
        for _ in range(self._n_workers):
            self._start_worker()
        process.close_at_exit(self)
        super().start()

    def join(self, timeout: float | None = None) -> None:
        """Wait until every request is handled, at most `timeout` seconds. Raises what the handler raised;
        CaramlError for failed requests.
        """
        super().join(timeout)
        if self.is_alive():
            return
        if self._error is not None:
            raise self._error
        if self.failures:
            request, reason = self.failures[0]
            raise CaramlError(f"{len(self.failures)} requests failed; the first, {request!r}: {reason}")

    def stop(self) -> None:
        """End early; what is being fetched is dropped."""
        self._stopped = True

    def run(self) -> None:
        """Keep the workers busy until every request is handled."""
        try:
            while not self._stopped and not process.closing() and self._give():
                for pipe in wait(list(self._workers), _TICK):
                    self._take(pipe)
        except BaseException as error:
            self._error = error
            log.exception("DataFetcher failed")
        finally:
            self._end_workers()

    def _give(self) -> bool:
        """Give requests to the threads that have none; return whether any are being fetched."""
        for pipe in self._workers.keys() - self._fetching.keys():
            task = self._again.popleft() if self._again else self._next_task()
            if task is None:
                break
            self._fetching[pipe] = task
            try:
                pipe.send((task.request,))
            except OSError:
                continue  # the worker ended: its pipe is readable, and `_take` sees that
        return bool(self._fetching)

    def _next_task(self) -> "_Task | None":
        for request in self._requests:
            return _Task(request)
        return None

    def _take(self, pipe: Any) -> None:
        """Handle a reply, or the end of a worker."""
        try:
            failure, name = pipe.recv()
        except (EOFError, OSError):
            self._lose(pipe)
            return
        self._stillborn = 0
        task = self._fetching.pop(pipe)
        if not failure:
            try:
                shared = get(name)
            except SharedMemoryError:
                self._fetch_again(task)
                return
            self.handler(task.request, shared)
            return
        task.attempts += 1
        if task.attempts < _ATTEMPTS:
            self._again.append(task)
        else:
            log.error("request %r failed: %s", task.request, failure)
            self.failures.append((task.request, failure))

    def _lose(self, pipe: Connection) -> None:
        """Fetch again what a worker that ended was fetching; replace it when its last pipe is gone."""
        worker = self._workers.pop(pipe)
        pipe.close()
        if (task := self._fetching.pop(pipe, None)) is not None:
            self._fetch_again(task)
        if worker in self._workers.values():
            return
        worker.join(_END_WAIT)
        self._stillborn += 1
        if self._stillborn > _STILLBORN * self._n_workers:
            raise CaramlError(
                f"{self._stillborn} worker processes ended, one after the other, before they fetched "
                f"anything; the last with exit code {worker.exitcode} (the log says why)"
            )
        self._start_worker()

    def _fetch_again(self, task: "_Task") -> None:
        self.refetched += 1
        self._again.append(task)

    def _start_worker(self) -> None:
        pipes = [_forking.Pipe() for _ in range(self._threads)]
        ends = [end for _, end in pipes]
        worker = _forking.Process(target=work, args=(self._plan, ends), name="caraml-fetch", daemon=True)
        worker.start()
        for pipe, end in pipes:
            end.close()  # so that the end of the worker is seen
            self._workers[pipe] = worker

    def _end_workers(self) -> None:
        for pipe in self._workers:
            if not self._stopped and pipe not in self._fetching:
                try:
                    pipe.send(None)
                except OSError:
                    continue
        for worker in set(self._workers.values()):
            worker.join(0 if self._stopped or self._fetching else _END_WAIT)
            worker.kill()
            worker.join(1.0)

    def at_exit(self, stage: int) -> None:
        """Leave no worker behind."""
        if stage == 1 and self.is_alive():
            self.stop()
            super().join(0.5)
            for worker in set(self._workers.values()):
                worker.kill()

    def in_use(self) -> bool:
        """Return whether the thread is running."""
        return self.is_alive()


class _Task:
    """A request, and how often it failed."""

    def __init__(self, request: Any) -> None:
        self.request = request
        self.attempts = 0


class FetchPlan(NamedTuple):
    """The settings of a worker; it is forked, so nothing here needs to be pickled."""

    remote: SocketOptions
    serializer: serializers.Serializer
    deserializer: serializers.Serializer
    handler: Callable[[Any], Any] | None
    timeout: float
    pool_bytes: int


def work(plan: FetchPlan, pipes: list[Connection]) -> None:
    """Fetch in the worker process, a thread for each pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    process.end_with_parent()
    threads = [threading.Thread(target=_fetch_all, args=(plan, pipe), daemon=True) for pipe in pipes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _fetch_all(plan: FetchPlan, pipe: Connection) -> None:
    """Fetch until there is nothing more.

    A thread that cannot go on ends the process: the parent sees that, and gives what it was fetching to
    another. There is no deadline: the parent answers when its handler has time, and `end_with_parent` knows
    when it never will.
    """
    try:
        pool = SharedPool(plan.pool_bytes)
        with ZmqClient(
            serializer=plan.serializer, deserializer=plan.deserializer, timeout=plan.timeout, **plan.remote
        ) as remote:
            while (task := pipe.recv()) is not None:
                pipe.send(_fetch(remote, pool, plan.handler, *task))
    except BaseException:
        log.exception("DataFetcher worker failed")
        os._exit(1)


def _fetch(
    remote: ZmqClient, pool: SharedPool, handler: Callable[[Any], Any] | None, request: Any
) -> tuple[str, bytes]:
    """Return why a request failed, or "" and the name of its reply in shared memory."""
    try:
        reply = remote.request(request)
        return "", pool.put(reply if handler is None else handler(reply))
    except Exception as error:
        return f"{type(error).__name__}: {error}", b""
