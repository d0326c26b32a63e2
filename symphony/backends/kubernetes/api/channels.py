"""Channels: a WebSocket to the API server that carries several streams, for exec and port-forward.

The first byte of each message is the number of its stream. The official client (kubernetes.stream) has no
deadline for a silent server, buffers received data without a limit, and deadlocks if both ends send and
neither reads. This module uses the same library, websocket-client, and adds pings and a socket on which a
thread can receive while another sends.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import unquote, urlencode, urlsplit

from symphony.backends.kubernetes.api.client import ANSWER_DEADLINE, Client, Refused, Unreachable, decode
from symphony.backends.kubernetes.api.kubeconfig import Access
from symphony.errors import UserError

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
MAX_MESSAGE = 32 * 1024
# A server that falls silent is an error within 30 s: it answers every ping.
_PING = 5.0
_SILENCE = 15.0
# How long a process may refuse input while the server is silent.
_STALLED = 61.0
_DATA, _CLOSED = (1, 2), 8
_T = TypeVar("_T")


class Channels:
    """An open connection; one thread may receive while others send.

    Raises:
        Refused: The server refuses the request.
        Unreachable: The server does not answer.
    """

    def __init__(
        self, client: Client, path: str, query: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> None:
        websocket: Any = importlib.import_module("websocket")
        self._websocket = websocket
        self._client = client
        self._failures: tuple[type[Exception], ...] = (OSError, websocket.WebSocketException)
        self._silent: type[Exception] = websocket.WebSocketTimeoutException
        target = client.target(f"{path}?{urlencode(query, errors='surrogateescape')}")
        access = client.access
        try:
            self._connect(access, target, protocols)
        except Refused as refused:
            if refused.status != 401 or not client.renew_access(access):
                raise
            self._connect(client.access, target, protocols)
        # Version 5 of the protocol can close a single stream.
        self.can_end = str(self._socket.subprotocol).startswith("v5")
        self._socket.settimeout(_PING)

    def _connect(self, access: Access, target: str, protocols: Sequence[str]) -> None:
        scheme = "wss" if access.trust else "ws"
        ssl_options = {"context": access.trust, "server_hostname": access.server_name or None}
        self._socket: Any = self._websocket.WebSocket(skip_utf8_validation=True, sslopt=ssl_options)
        try:
            self._socket.connect(
                f"{scheme}://{urlsplit(access.server).netloc}{target}",
                timeout=ANSWER_DEADLINE,
                header=[f"{name}: {value}" for name, value in access.headers.iteritems()],
                subprotocols=list(protocols),
                suppress_origin=True,
                redirect_limit=0,
                **_proxy(access),
            )
        except self._websocket.WebSocketBadStatusException as error:
            decode(int(error.status_code), error.resp_body or b"")
        except self._failures as error:
            raise self._client.unreachable_error(error) from error
        self._connection = self._socket.sock = _DuplexSocket(self._socket.sock)

    def send(self, channel: int, data: bytes) -> None:
        """Send data to a stream; wait while the process takes no input but the server answers.

        Raises:
            OSError: The connection is closed, or for a minute the server was silent and took no data.
        """
        for start in range(0, len(data), MAX_MESSAGE):
            self._send(bytes([channel]) + data[start : start + MAX_MESSAGE])

    def resize(self, columns: int, rows: int) -> None:
        """Send the size of the terminal."""
        self._send(bytes([RESIZE]) + json.dumps({"Width": columns, "Height": rows}).encode())

    def end(self, channel: int) -> None:
        """Close a stream for sending, if the protocol supports that."""
        if self.can_end:
            self._send(bytes([CLOSE, channel]))

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield (stream, data) until the connection ends.

        Raises:
            Unreachable: The other end is silent.
        """
        while True:
            try:
                kind, data = self._socket.recv_data(control_frame=True)
            except self._silent:
                if time.monotonic() - self._connection.last_heard > _SILENCE:
                    self._check_server()
                if not self._connection.is_sending:
                    with contextlib.suppress(*self._failures):
                        self._socket.ping()
                continue
            except self._failures:
                return
            if kind == _CLOSED:
                return
            if kind in _DATA and data:
                yield data[0], data[1:]

    def _check_server(self) -> None:
        """Ask the server over another connection: it answers no ping while the process takes no input."""
        if not self._connection.is_sending:
            error = Unreachable(f"the API server sent nothing for {_SILENCE:.0f} s")
            raise self._client.mark_unreachable(error) from None
        with contextlib.suppress(Refused):
            self._client.get("/version")
        self._connection.last_heard = time.monotonic()

    def close(self) -> None:
        """Close the connection at once."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, message: bytes) -> None:
        try:
            self._socket.send_bytes(message)
        except self._failures as error:
            raise ConnectionError(str(error)) from error


def _proxy(access: Access) -> dict[str, Any]:
    """Return options for the same proxy as other requests; by default websocket-client chooses a proxy."""
    proxy = access.pool.proxy
    if proxy is None:
        return {"http_proxy_host": "none", "http_no_proxy": ["*"]}
    if proxy.scheme != "http":
        raise UserError(
            f"exec, ssh, scp and visit cannot use the {proxy.scheme} proxy of the API server",
            remedy="Set proxy-url of the cluster to an http:// URL; if it has none, set HTTPS_PROXY to one,"
            " or name the server in NO_PROXY",
        )
    user, _, password = map(unquote, (proxy.auth or "").partition(":"))
    auth = (user, password) if user else None
    return {"http_proxy_host": proxy.host, "http_proxy_port": proxy.port or 80, "http_proxy_auth": auth}


class _DuplexSocket:
    """A socket on which a thread can wait for data while another sends; TLS allows one call at a time."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._socket.setblocking(False)
        self._lock = threading.Lock()
        self._timeout: float | None = ANSWER_DEADLINE
        self._buffer = b""
        # When data last arrived or was accepted.
        self.last_heard = time.monotonic()
        self.is_sending = False

    def recv(self, size: int) -> bytes:
        """Return some bytes; empty at the end."""
        if not self._buffer:
            self._buffer = self._call(lambda: self._socket.recv(1 << 16), select.POLLIN, self._timeout)
            self.last_heard = time.monotonic()
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def send(self, data: bytes) -> int:
        """Send some bytes and return how many.

        Raises:
            TimeoutError: The other end accepts nothing and is silent.
        """
        began, self.is_sending = time.monotonic(), True
        try:
            count = self._send(data)
        finally:
            self.is_sending = False
        # The process has accepted data that had to wait.
        if time.monotonic() - began > 1:
            self.last_heard = time.monotonic()
        return count

    def _send(self, data: bytes) -> int:
        while True:
            try:
                return self._call(lambda: self._socket.send(data), select.POLLOUT, _PING)
            except TimeoutError:
                if time.monotonic() - self.last_heard > _STALLED:
                    raise

    def gettimeout(self) -> float | None:
        return self._timeout

    def settimeout(self, seconds: float | None) -> None:
        self._timeout = seconds

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket and wake the threads that wait for it."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        self._socket.close()

    def _call(self, operation: Callable[[], _T], event: int, seconds: float | None) -> _T:
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            try:
                with self._lock:
                    return operation()
            except BlockingIOError:
                awaited = event
            except ssl.SSLWantReadError:
                awaited = select.POLLIN
            except ssl.SSLWantWriteError:
                awaited = select.POLLOUT
            poller = select.poll()
            poller.register(self._socket, awaited)
            if not poller.poll(None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000):
                raise TimeoutError("timed out")
