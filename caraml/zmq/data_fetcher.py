"""DataFetcher: sends requests to a server from worker processes; replies come through shared memory.

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

**Guarantee.** The handler is called once for every request that succeeds, in no particular order. A worker
that dies is replaced and its requests are sent again, so the server may serve a request twice. A reply that
does not fit into the pool comes through the worker's pipe.
"""

import logging
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from caraml import process, serializers
from caraml.address import resolve
from caraml.errors import CaramlError, SharedMemoryError
from caraml.inmemory.pool import MAX_BYTES, Shared, SharedPool, get
from caraml.limits import DEFAULT_LIMITS, Limits
from caraml.zmq.request_reply import ZmqClient

log = logging.getLogger("caraml")

_TICK = 0.1
_MAX_ATTEMPTS = 3
_MAX_ENDS_WITHOUT_ANSWER = 3
_END_WAIT = 2.0
_forking = multiprocessing.get_context("fork")


class DataFetcher(threading.Thread):
    """A daemon thread: `start()`, `join()`, `stop()`. A request that fails three times is in `failures`.

    `refetched` counts the requests that were sent again because their worker ended.

    Args:
        handler: Called as `handler(request, shared)` in this process, one call at a time; `shared.data` is
            the reply, `shared.delete()` releases it.
        remote_host: The host of the server; or give `remote_service`.
        remote_port: The port of the server.
        requests: Iterated in the thread, as fast as replies arrive.
        worker_comm_port: Ignored: workers are reached through pipes.
        remote_serializer: The serializer of requests.
        remote_deserialzer: The deserializer of replies, as caraml 0.10 spells it.
        n_workers: The number of processes.
        threads_per_worker: The number of threads in each process.
        worker_handler: Called as `worker_handler(reply)` in the worker; its result replaces the reply.
        remote_deserializer: The deserializer of replies.
        remote_service: The service that the server binds.
        timeout: The seconds for one request, negative for ever.
        pool_bytes: The bytes of shared memory for replies.
        limits: The limits on replies.
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
        # A wrong address raises in the caller, not in every worker.
        resolve(bind=False, host=remote_host, port=remote_port, service=remote_service)
        self.handler = handler
        self.failures: list[tuple[Any, str]] = []
        self.refetched = 0
        self._requests: Iterator[Any] = iter(requests)
        self._to_retry: deque[_Task] = deque()
        self._fetching: dict[Any, _Task] = {}  # pipe -> task
        self._workers: dict[Any, Any] = {}  # pipe -> worker, which has a pipe for each thread
        self._n_workers, self._threads = n_workers, threads_per_worker
        self._ends_without_answer = 0
        self._stopped = False
        self._error: BaseException | None = None
        self._client: dict[str, Any] = {
            "host": remote_host,
            "port": remote_port,
            "service": remote_service,
            "limits": limits,
            "serializer": remote_serializer,
            "deserializer": remote_deserialzer if remote_deserializer is None else remote_deserializer,
            "timeout": timeout,
        }
        self._worker_handler = worker_handler
        self._pool_bytes = pool_bytes // max(1, n_workers * threads_per_worker)

    def start(self) -> None:
        """Start the workers and the thread."""
        for _ in range(self._n_workers):
            self._start_worker()
        process.close_at_exit(self)
        super().start()

    def join(self, timeout: float | None = None) -> None:
        """Wait until every request is handled, at most `timeout` seconds.

        Raises the exception of the handler; CaramlError for failed requests.
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
        """End early; requests in progress are dropped."""
        self._stopped = True

    def run(self) -> None:
        """Keep the workers busy until every request is handled."""
        try:
            while not self._stopped and not process.closing() and self._assign_requests():
                for pipe in wait(list(self._workers), _TICK):
                    self._handle_reply(pipe)
        except BaseException as error:
            self._error = error
            log.exception("DataFetcher failed")
        finally:
            self._end_workers()

    def _assign_requests(self) -> bool:
        """Send requests to idle workers; return whether any are in progress."""
        for pipe in self._workers.keys() - self._fetching.keys():
            task = self._to_retry.popleft() if self._to_retry else self._next_task()
            if task is None:
                break
            self._fetching[pipe] = task
            try:
                pipe.send((task.request,))
            except OSError:
                continue  # the worker ended: `_handle_reply` sees that
        return bool(self._fetching)

    def _next_task(self) -> "_Task | None":
        for request in self._requests:
            return _Task(request)
        return None

    def _handle_reply(self, pipe: Any) -> None:
        """Handle a reply, or the end of a worker."""
        try:
            failure, name = pipe.recv()
        except (EOFError, OSError):
            self._handle_worker_end(pipe)
            return
        self._ends_without_answer = 0
        task = self._fetching.pop(pipe)
        if not failure:
            try:
                shared = get(name)
            except SharedMemoryError:  # the worker has ended, and its memory with it
                self._fetch_again(task)
                return
            self.handler(task.request, shared)
            return
        task.attempts += 1
        if task.attempts < _MAX_ATTEMPTS:
            self._to_retry.append(task)
        else:
            log.error("request %r failed: %s", task.request, failure)
            self.failures.append((task.request, failure))

    def _handle_worker_end(self, pipe: Connection) -> None:
        """Repeat the request that this pipe's thread had; replace the worker after the last of its pipes."""
        worker = self._workers.pop(pipe)
        pipe.close()
        if (task := self._fetching.pop(pipe, None)) is not None:
            self._fetch_again(task)
        if worker in self._workers.values():
            return
        worker.join(_END_WAIT)
        self._ends_without_answer += 1
        if self._ends_without_answer > _MAX_ENDS_WITHOUT_ANSWER * self._n_workers:
            raise CaramlError(
                f"{self._ends_without_answer} worker processes ended, one after the other, and no worker "
                f"answered in between; the last with exit code {worker.exitcode} (the log says why)"
            )
        self._start_worker()

    def _fetch_again(self, task: "_Task") -> None:
        self.refetched += 1
        self._to_retry.append(task)

    def _start_worker(self) -> None:
        pipes = [_forking.Pipe() for _ in range(self._threads)]
        ends = [end for _, end in pipes]
        worker = _forking.Process(target=self._work, args=(ends,), name="caraml-fetch", daemon=True)
        worker.start()
        for pipe, end in pipes:
            end.close()  # so that the pipe closes when the worker ends
            self._workers[pipe] = worker

    def _work(self, pipes: list[Connection]) -> None:
        """Run a worker process, which is forked, with a thread for each pipe."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        process.end_with_parent()
        threads = [threading.Thread(target=self._fetch_all, args=(pipe,), daemon=True) for pipe in pipes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _fetch_all(self, pipe: Connection) -> None:
        """Answer the requests of a pipe with replies of the server, until the parent sends None.

        On an error the process ends, and the parent sends its requests to another worker. Reading the pipe
        has no deadline, since the parent's handler may take long; `end_with_parent` ends an orphaned worker.
        """
        try:
            pool = SharedPool(self._pool_bytes)
            with ZmqClient(**self._client) as remote:
                while (request := pipe.recv()) is not None:
                    pipe.send(self._fetch(remote, pool, *request))
        except BaseException:
            log.exception("DataFetcher worker failed")
            os._exit(1)

    def _fetch(self, remote: ZmqClient, pool: SharedPool, request: Any) -> tuple[str, bytes]:
        """Return the reason of a failure, else "", and the name of the reply in shared memory."""
        try:
            reply = remote.request(request)
            return "", pool.put(reply if self._worker_handler is None else self._worker_handler(reply))
        except Exception as error:
            return f"{type(error).__name__}: {error}", b""

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
        """Kill the workers."""
        if stage == 1 and self.is_alive():
            self.stop()
            super().join(0.5)
            for worker in set(self._workers.values()):
                worker.kill()

    def in_use(self) -> bool:
        """Return whether the thread is running."""
        return self.is_alive()


class _Task:
    """A request and the number of its failed attempts."""

    def __init__(self, request: Any) -> None:
        self.request = request
        self.attempts = 0
