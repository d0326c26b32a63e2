"""One WebSocket to the API server that carries several streams, as exec and port-forward do.

The first byte of each message says which stream it is of. websocket-client frames them; by hand is what it
lacks: TLS on which one thread receives while another sends, and pings that go unanswered for as long as a
process takes no input.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib
import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlencode, urlsplit

from symphony.backends.kubernetes.api.client import ANSWER_DEADLINE, Client, Refused, Unreachable, judged
from symphony.errors import SymphonyError

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
# What one message holds at most.
MESSAGE = 32 * 1024
# A server that falls silent is an error within 30 s: the other end answers every ping.
_PING = 5.0
_SILENCE = 15.0
# Of input that nobody takes, where nobody listens for an answer either.
_STALLED = 61.0
_DATA, _CLOSED = (1, 2), 8
_T = TypeVar("_T")


class Channels:
    """A connection that is open; one thread may receive while others send."""

    def __init__(
        self,
        client: Client,
        path: str,
        query: Sequence[tuple[str, str]],
        protocols: Sequence[str],
    ) -> None:
        """Refused: the server says no; Unreachable: it does not answer."""
        websocket = _library()
        self._client = client
        self._trouble: tuple[type[Exception], ...] = (OSError, websocket.WebSocketException)
        self._silent: type[Exception] = websocket.WebSocketTimeoutException
        self._socket: Any = websocket.WebSocket(skip_utf8_validation=True)
        target = client.target(f"{path}?{urlencode(query, errors='surrogateescape')}")
        headers = client.headers
        try:
            self._connect(client, target, protocols, headers)
        except Refused as refused:
            if refused.status != 401 or not client.renewed(headers):
                raise
            self._socket = websocket.WebSocket(skip_utf8_validation=True)
            self._connect(client, target, protocols, client.headers)
        # From version 5 on.
        self.can_end = str(self._socket.subprotocol).startswith("v5")
        self._socket.settimeout(_PING)

    def _connect(
        self, client: Client, target: str, protocols: Sequence[str], headers: Mapping[str, str]
    ) -> None:
        scheme, host = ("wss" if client.access.trust else "ws"), urlsplit(client.access.server).netloc
        try:
            self._line = _Line(client.connected(ANSWER_DEADLINE).sock)
        except (OSError, http.client.HTTPException) as error:
            raise client.unreachable(error) from error
        try:
            self._socket.connect(
                f"{scheme}://{host}{target}",
                socket=self._line,
                host=host,
                header=[f"{name}: {value}" for name, value in headers.items()],
                subprotocols=list(protocols),
                suppress_origin=True,
                redirect_limit=0,
            )
        except self._trouble as error:
            self.close()
            if isinstance(error, _library().WebSocketBadStatusException):
                refused: Any = error
                judged(int(refused.status_code), refused.resp_body or b"")
            raise client.unreachable(error) from error

    def send(self, channel: int, data: bytes) -> None:
        """Send to one stream. OSError: nobody takes it any more."""
        for start in range(0, len(data), MESSAGE):
            self._send(bytes([channel]) + data[start : start + MESSAGE])

    def resize(self, columns: int, rows: int) -> None:
        """Tell the terminal at the other end how large it is."""
        self._send(bytes([RESIZE]) + json.dumps({"Width": columns, "Height": rows}).encode())

    def end(self, channel: int) -> None:
        """Say that nothing more comes on one stream, where that can be said."""
        if self.can_end:
            self._send(bytes([CLOSE, channel]))

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Stream and data as they come, until the connection ends. Unreachable: the other end is silent."""
        while True:
            try:
                kind, data = self._socket.recv_data(control_frame=True)
            except self._silent:
                if time.monotonic() - self._line.heard > _SILENCE:
                    self._ask()
                if not self._line.is_sending:
                    with contextlib.suppress(*self._trouble):
                        self._socket.ping()
                continue
            except self._trouble:
                return
            if kind == _CLOSED:
                return
            if kind in _DATA and data:
                yield data[0], data[1:]

    def _ask(self) -> None:
        """Where the process takes no input the server answers no ping: another connection tells of it."""
        if not self._line.is_sending:
            raise Unreachable(f"nothing came from the API server for {_SILENCE:.0f} s") from None
        with contextlib.suppress(Refused):
            self._client.get("/version")
        self._line.heard = time.monotonic()

    def close(self) -> None:
        """Give it up, without a farewell."""
        self._line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, message: bytes) -> None:
        try:
            self._socket.send_bytes(message)
        except self._trouble as error:
            raise ConnectionError(str(error)) from error


def _library() -> Any:
    """Only commands that reach into processes need it."""
    try:
        return importlib.import_module("websocket")
    except ImportError:
        raise SymphonyError(
            "the package websocket-client is missing", remedy="pip install 'symphony-launch[kubernetes]'"
        ) from None


class _Line:
    """A socket on which one thread may wait for data while another sends: TLS allows one call at a time."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self._socket.setblocking(False)
        self._lock = threading.Lock()
        self._timeout: float | None = ANSWER_DEADLINE
        self._read = b""
        # When the other end last gave a sign of life, and whether it lets a send wait.
        self.heard = time.monotonic()
        self.is_sending = False

    def recv(self, size: int) -> bytes:
        """Some bytes, none at the end."""
        if not self._read:
            self._read = self._locked(lambda: self._socket.recv(1 << 16), select.POLLIN, self._timeout)
            self.heard = time.monotonic()
        taken, self._read = self._read[:size], self._read[size:]
        return taken

    def send(self, data: bytes) -> int:
        """How much went. TimeoutError: the other end takes nothing, and says nothing."""
        began, self.is_sending = time.monotonic(), True
        try:
            count = self._sent(data)
        finally:
            self.is_sending = False
        # What had to wait was taken by somebody in the end.
        if time.monotonic() - began > 1:
            self.heard = time.monotonic()
        return count

    def _sent(self, data: bytes) -> int:
        while True:
            try:
                return self._locked(lambda: self._socket.send(data), select.POLLOUT, _PING)
            except TimeoutError:
                if time.monotonic() - self.heard > _STALLED:
                    raise

    def gettimeout(self) -> float | None:
        return self._timeout

    def settimeout(self, seconds: float | None) -> None:
        self._timeout = seconds

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        """Wakes whoever waits."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        self._socket.close()

    def _locked(self, call: Callable[[], _T], wanted: int, seconds: float | None) -> _T:
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            try:
                with self._lock:
                    return call()
            except BlockingIOError:
                event = wanted
            except ssl.SSLWantReadError:
                event = select.POLLIN
            except ssl.SSLWantWriteError:
                event = select.POLLOUT
            self._wait(event, until)

    def _wait(self, event: int, until: float | None) -> None:
        waiting = select.poll()
        waiting.register(self._socket, event)
        left = None if until is None else max(0.0, until - time.monotonic()) * 1000
        if not waiting.poll(left):
            raise TimeoutError("timed out")
