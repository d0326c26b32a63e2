"""Requests to one API server over connections that stay open, one a thread; all I/O towards Kubernetes."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode, urlsplit

from toolchain.plugin_kubernetes.api.access import Access
from toolchain.plugins.failures import Canceled, Refused, Silent, Unreachable

CONNECT_WITHIN = 5
# A server that restarts is back well within this; one that is gone must not hold up the user for longer.
PATIENCE = 20
# One that is busy may answer the last try so much later.
_WATCH_GRACE = 5
# A watch ends at the moment that the server was told, or nobody is there to end it.
_WATCH_ENDS_WITHIN = 3
# For so long after patience ran out every request fails at once, else each object would try again.
AWAY_FOR = 10
_TRANSIENT = (429, 502, 503, 504)


class Connection:
    """Shared by all threads of the plugin."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._canceled = threading.Event()
        self._own = threading.local()
        self._away_until = 0.0
        self._streams: set[http.client.HTTPConnection] = set()

    def cancel(self) -> None:
        """End every wait; a request that is under way still gets its answer."""
        self._canceled.set()
        for connection in list(self._streams):
            if connection.sock is not None:
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)

    def pause(self, seconds: float) -> None:
        """Sleep, unless the run is canceled."""
        if self._canceled.wait(seconds):
            raise Canceled("canceled")

    def request(
        self,
        verb: str,
        path: str,
        query: dict[str, str] | None = None,
        body: Any = None,
        kind: str = "json",
        patience: float = PATIENCE,
    ) -> dict[str, Any]:
        """The answer; asks again while the server is away, raises Refused for any other no."""
        target = f"{path}?{urlencode(query)}" if query else path
        content = written(body) if body is not None else None
        headers = {"Content-Type": f"application/{kind}", **self._access.headers}
        if time.monotonic() < self._away_until:
            raise Unreachable(f"the API server at {self._access.server} does not answer")
        deadline, wait = time.monotonic() + patience, 0.1
        while True:
            try:
                status, raw = self._once(verb, target, content, headers, patience + _WATCH_GRACE)
            except (OSError, http.client.HTTPException) as error:
                if time.monotonic() + wait > deadline:
                    self._away_until = time.monotonic() + AWAY_FOR
                    text = f"the API server at {self._access.server} does not answer: {error}"
                    raise Unreachable(text) from error
            else:
                if not _passing(status, raw) or time.monotonic() + wait > deadline:
                    return _judged(status, raw)
            self.pause(wait)
            wait = min(wait * 2, 2)

    def stream(self, path: str, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        """The events of a watch, over a connection of its own, until the server ends it."""
        self.pause(0)
        connection = self._made()
        self._streams.add(connection)
        try:
            self._connect(connection, within=float(query["timeoutSeconds"]) + _WATCH_ENDS_WITHIN)
            connection.request("GET", f"{path}?{urlencode(query)}", headers=self._access.headers)
            answer = connection.getresponse()
            if answer.status != 200:
                _judged(answer.status, answer.read())
            for line in answer:
                yield json.loads(line)
        except TimeoutError as error:
            raise Silent(f"the watch on {path} does not end") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.pause(0)  # a canceled run closed it
            raise Unreachable(f"the watch on {path} broke: {error}") from error
        finally:
            self._streams.discard(connection)
            connection.close()

    def _once(
        self, verb: str, target: str, content: bytes | None, headers: dict[str, str], within: float
    ) -> tuple[int, bytes]:
        connection = getattr(self._own, "connection", None)
        try:
            if connection is None or connection.sock is None:
                connection = self._made()
                self._connect(connection, within)
                self._own.connection = connection
            connection.sock.settimeout(within)
            connection.request(verb, target, content, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except BaseException:
            self._own.connection = None
            if connection is not None:
                connection.close()
            raise

    def _made(self) -> http.client.HTTPConnection:
        server, trust = urlsplit(self._access.server), self._access.trust
        if trust is None:
            return http.client.HTTPConnection(server.netloc, timeout=CONNECT_WITHIN)
        return http.client.HTTPSConnection(server.netloc, timeout=CONNECT_WITHIN, context=trust)

    def _connect(self, connection: http.client.HTTPConnection, within: float) -> None:
        """A server that is there takes the connection at once, but may need its time to answer."""
        connection.connect()
        connection.sock.settimeout(within)


def written(body: Any) -> bytes:
    """Values as text that is JSON and, for an apply, YAML alike.

    The server's YAML takes no pair of surrogates for a character and no raw control character or foreign line
    break: the first are written as they are, all else beyond ASCII by its number.
    """
    text = json.dumps(body, ensure_ascii=False)
    return re.sub("[\x7f-\uffff]", lambda value: f"\\u{ord(value[0]):04x}", text).encode()


def _passing(status: int, raw: bytes) -> bool:
    """Trouble of the server's own; a webhook that fails is a 500 too, and the user's to know at once."""
    return status in _TRANSIENT or (status == 500 and b"etcdserver" in raw)


def _judged(status: int, raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except ValueError:
        body = {"message": raw.decode(errors="replace")[:500]}
    if status >= 400:
        raise Refused(status, body.get("reason", ""), _message(body, status))
    return body


def _message(body: dict[str, Any], status: int) -> str:
    text = body.get("message") or f"the API server answered {status}"
    causes = [each for each in body.get("details", {}).get("causes") or [] if each.get("field")]
    named = [f"{each['field']}: {each.get('message', '')}" for each in causes if each["field"] not in text]
    return "; ".join([text, *named])
