"""Requests to one API server over connections that stay open, one a thread; the only I/O towards Kubernetes."""

from __future__ import annotations

import http.client
import json
import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from toolchain.plugin_kubernetes.access import Access
from toolchain.plugin_kubernetes.failures import Canceled, Refused, Unreachable

TIMEOUT = 15
# A server that restarts is back well within this; one that is gone must not hold up the user for longer.
PATIENCE = 25
_TRANSIENT = (429, 502, 503, 504)


@dataclass(frozen=True)
class Answer:
    """What the API server returned, and whether the request was sent more than once."""

    status: int
    body: dict[str, Any]
    repeated: bool = False


class Connection:
    """Shared by all threads of the plugin."""

    def __init__(self, access: Access, canceled: threading.Event) -> None:
        self._access = access
        self._canceled = canceled
        self._own = threading.local()

    def request(
        self, verb: str, path: str, query: dict[str, str] | None = None, body: Any = None, kind: str = "json"
    ) -> Answer:
        """Send it, again while the server is away or asks for patience; raise Refused for every other no."""
        target = f"{path}?{urlencode(query)}" if query else path
        content = json.dumps(body).encode() if body is not None else None
        headers = {
            "Accept": "application/json",
            "Content-Type": f"application/{kind}",
            **self._access.headers,
        }
        deadline, pause, repeated = time.monotonic() + PATIENCE, 0.1, False
        while True:
            try:
                status, raw = self._once(verb, target, content, headers)
            except (OSError, http.client.HTTPException) as error:
                if time.monotonic() + pause > deadline:
                    raise Unreachable(
                        f"the API server at {self._access.server} does not answer: {error}"
                    ) from error
            else:
                # A webhook that fails is a 500 too, and is the user's to know at once.
                passing = status in _TRANSIENT or (status == 500 and b"etcdserver" in raw)
                if not passing or time.monotonic() + pause > deadline:
                    return _judged(status, raw, repeated)
            repeated = True
            if self._canceled.wait(pause):
                raise Canceled("canceled while the API server did not answer")
            pause = min(pause * 2, 2)

    def _once(
        self, verb: str, target: str, content: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        connection = self._open()
        try:
            connection.request(verb, target, content, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except BaseException:
            connection.close()
            self._own.connection = None
            raise

    def _open(self) -> http.client.HTTPConnection:
        connection = getattr(self._own, "connection", None)
        if connection is None:
            server = urlsplit(self._access.server)
            if self._access.trust is None:
                connection = http.client.HTTPConnection(server.netloc, timeout=TIMEOUT)
            else:
                connection = http.client.HTTPSConnection(
                    server.netloc, timeout=TIMEOUT, context=self._access.trust
                )
            self._own.connection = connection
        return connection


def _judged(status: int, raw: bytes, repeated: bool) -> Answer:
    try:
        body = json.loads(raw)
    except ValueError:
        body = {"message": raw.decode(errors="replace")[:500]}
    if status >= 400:
        raise Refused(status, body.get("reason", ""), _message(body, status))
    return Answer(status, body, repeated)


def _message(body: dict[str, Any], status: int) -> str:
    text = body.get("message") or f"the API server answered {status}"
    causes = [each for each in body.get("details", {}).get("causes") or [] if each.get("field")]
    named = [f"{each['field']}: {each.get('message', '')}" for each in causes if each["field"] not in text]
    return "; ".join([text, *named])
