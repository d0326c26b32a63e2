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

import contextlib
import logging
import multiprocessing
import os
import secrets
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from caraml import process, serializers
from caraml.address import resolve
from caraml.errors import CaramlError, ClosedError, MalformedMessageError, SharedMemoryError, ZmqTimeoutError
from caraml.inmemory.pool import MAX_BYTES, Shared, SharedPool, get
from caraml.limits import DEFAULT_LIMITS, Limits
from caraml.pickled import pickle_codec
from caraml.zmq.endpoint import SocketOptions
from caraml.zmq.request_reply import ZmqClient, ZmqServer

log = logging.getLogger("caraml")

_TICK = 0.1
_WAIT = 0.05
_ATTEMPTS = 3
_STILLBORN = 3
_END_WAIT = 2.0
_forking = multiprocessing.get_context("fork")


class DataFetcher(threading.Thread):
    """A daemon thread: `start()`, `join()`, `stop()`.

    `handler(request, shared)` is called in this process, one at a time; `shared.data` is the reply,
    `shared.delete()` lets go of it. `requests` is iterated in the thread, as fast as replies come. The server
    is at `remote_host` and `remote_port`, or is the service `remote_service`. `worker_comm_port` is this
    machine's port for the workers, None for a free one: `n_workers` processes with `threads_per_worker` each.
    `remote_serializer` is of the requests, `remote_deserializer` (or `remote_deserialzer`) of the replies,
    which lie in at most `pool_bytes` of shared memory. `worker_handler(reply)` runs in the worker, on every
    reply. `timeout` seconds for one request (negative: for ever); one that fails three times is in
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
        resolve(
            bind=False, host=remote_host, port=remote_port, service=remote_service
        )  # raises here rather than in every worker
        self.handler = handler
        self.failures: list[tuple[Any, str]] = []
        self.refetched = 0
        self._requests: Iterator[Any] = iter(requests)
        self._n_workers = n_workers
        self._again: deque[tuple[int, Any]] = deque()
        self._fetching: dict[int, tuple[tuple[int, int], Any]] = {}  # by whom: worker and thread
        self._attempts: dict[int, int] = {}
        self._tasks = 0
        self._worker_count = 0
        self._stillborn = 0
        self._workers: dict[int, Any] = {}
        self._stopped = False
        self._error: BaseException | None = None
        key = secrets.token_bytes(32)
        self._encode, self._decode = pickle_codec("fetcher", False, key, limits)
        self._server = ZmqServer(
            host="127.0.0.1", port=worker_comm_port or 0, serializer=self._encode, limits=limits
        )
        deserializer = remote_deserialzer if remote_deserializer is None else remote_deserializer
        self._plan = FetchPlan(
            self._server.address,
            key,
            limits,
            remote,
            remote_serializer,
            deserializer,
            threads_per_worker,
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
        """Serve the workers until every request is handled."""
        try:
            while not self._stopped and not process.closing() and self._more_to_do():
                self._serve_one()
                self._replace_dead_workers()
            self._dismiss_workers()
        except (ClosedError, SystemExit):  # SystemExit: the interpreter exits
            pass
        except BaseException as error:
            self._error = error
            log.exception("DataFetcher failed")
        finally:
            self._end_workers()
            self._server.close(0)

    def _serve_one(self) -> None:
        try:
            received = self._server.recv(_TICK)
        except ZmqTimeoutError:
            return
        try:
            kind, worker, *details = self._decode(received, ())
        except MalformedMessageError as error:
            self._server.send_error(str(error))
            return
        self._stillborn = 0
        done = details[0] if details else None
        self._lost(task for task, (by, _) in self._fetching.items() if by == worker and task != done)
        self._server.send(self._next_task(worker))
        if kind != "ready":
            self._finished(kind, *details)

    def _next_task(self, worker: tuple[int, int]) -> tuple[Any, ...]:
        if self._again:
            task, request = self._again.popleft()
        else:
            try:
                request = next(self._requests)
            except StopIteration:
                return ("wait",)
            self._tasks += 1
            task = self._tasks
        self._fetching[task] = worker, request
        return "fetch", task, request

    def _more_to_do(self) -> bool:
        if self._again or self._fetching or not self._tasks:
            return True
        try:
            request = next(self._requests)
        except StopIteration:
            return False
        self._tasks += 1
        self._again.append((self._tasks, request))
        return True

    def _finished(self, kind: str, task: int, result: Any) -> None:
        if task not in self._fetching:  # of a worker that was given up for dead after all
            if kind == "done":
                with contextlib.suppress(SharedMemoryError):
                    get(result).delete()
            return
        _, request = self._fetching.pop(task)
        if kind == "failed":
            self._attempts[task] = self._attempts.get(task, 0) + 1
            if self._attempts[task] < _ATTEMPTS:
                self._again.append((task, request))
            else:
                log.error("request %r failed: %s", request, result)
                self.failures.append((request, result))
            return
        try:
            shared = get(result)
        except SharedMemoryError:
            self._fetch_again(task, request)
            return
        self.handler(request, shared)

    def _lost(self, tasks: Iterable[int]) -> None:
        """Fetch again what a dead worker was fetching."""
        for task in list(tasks):
            _, request = self._fetching.pop(task)
            self._fetch_again(task, request)

    def _fetch_again(self, task: int, request: Any) -> None:
        self.refetched += 1
        self._again.append((task, request))

    def _start_worker(self) -> None:
        self._worker_count += 1
        number = self._worker_count
        worker = _forking.Process(
            target=work, args=(self._plan, number), name=f"caraml-fetch-{number}", daemon=True
        )
        self._workers[number] = worker
        worker.start()

    def _replace_dead_workers(self) -> None:
        for number, worker in list(self._workers.items()):
            if worker.is_alive() or worker.exitcode is None:
                continue
            self._lost(task for task, (by, _) in self._fetching.items() if by[0] == number)
            del self._workers[number]
            self._stillborn += 1
            if self._stillborn > _STILLBORN * self._n_workers:
                raise CaramlError(
                    f"{self._stillborn} worker processes ended, one after the other, before they asked for "
                    f"work; the last with exit code {worker.exitcode} (the log says why)"
                )
            self._start_worker()

    def _dismiss_workers(self) -> None:
        """Answer the threads that ask for more until all workers ended, or for so long."""
        for _ in range(int(_END_WAIT / _TICK)):
            if self._stopped or not any(worker.is_alive() for worker in self._workers.values()):
                return
            try:
                while True:
                    self._server.recv(_TICK)
                    self._server.send(("end",))
            except ZmqTimeoutError:
                continue

    def _end_workers(self) -> None:
        for worker in self._workers.values():
            if worker.is_alive():
                worker.kill()
            worker.join(1.0)

    def at_exit(self, stage: int) -> None:
        """Leave no worker behind."""
        if stage == 1 and self.is_alive():
            self.stop()
            super().join(0.5)
            self._end_workers()

    def in_use(self) -> bool:
        """Return whether the thread is running."""
        return self.is_alive()


class FetchPlan(NamedTuple):
    """The settings of a worker; it is forked, so nothing here needs to be pickled."""

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
    """Fetch in the worker process."""
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
                threading.Event().wait(_WAIT)
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
