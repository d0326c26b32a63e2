"""A fake API server whose answers are set by the test."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import yaml

from symphony.backends.kubernetes.api import kubeconfig
from symphony.backends.kubernetes.api.client import Client


@dataclass(frozen=True)
class Asked:
    """One request that the server received."""

    verb: str
    path: str
    headers: dict[str, str]
    body: Any = None


Answer = tuple[int, Any]


@dataclass
class Api:
    """An API server of a test: its address, its requests and its answers (status, body).

    Bytes in place of a body are sent as the whole response, without the status. ahead: the seconds by which
    its clock is ahead of ours.
    """

    url: str
    answer: Callable[[Asked], Answer]
    ahead: float = 0.0
    asked: list[Asked] = field(default_factory=list[Asked])

    def client(self, path: str = "") -> Client:
        return client_to(self.url + path)

    def kubeconfig(self, context: str = "c", user: dict[str, Any] | None = None) -> str:
        """Return the text of a kubeconfig that leads here."""
        return kubeconfig_of(self.url, context, user)

    def paths(self, verb: str) -> list[str]:
        return [each.path for each in self.asked if each.verb == verb]


def kubeconfig_of(server: str, context: str = "c", user: dict[str, Any] | None = None) -> str:
    """Return the text of a kubeconfig that leads to a server."""
    content = {
        "clusters": [{"name": context, "cluster": {"server": server}}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "users": [{"name": context, "user": user or {}}],
        "current-context": context,
    }
    return yaml.safe_dump(content)


def client_to(server: str) -> Client:
    return Client(kubeconfig.access(kubeconfig_of(server)))


@contextlib.contextmanager
def serving(answer: Callable[[Asked], Answer]) -> Generator[Api]:
    """An API server while the block runs."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            asked = Asked(self.command, self.path, dict(self.headers.items()), body)
            api.asked.append(asked)
            status, result = api.answer(asked)
            if isinstance(result, bytes):
                # Send the bytes unchanged, then close the connection.
                self.close_connection = True
                self.wfile.write(result)
                return
            content = json.dumps(result).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(time.time() + api.ahead)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = do_CONNECT = _any

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        api = Api(f"http://127.0.0.1:{server.server_address[1]}", answer)
        # The poll interval for shutdown; the default of 0.5 s would slow down tests.
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield api
        finally:
            server.shutdown()


def chunked(*pieces: bytes, end: bool = True) -> bytes:
    """Return a raw chunked HTTP response; without `end` it breaks off before the last chunk."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return head + body + (b"0\r\n\r\n" if end else b"")


MISSING: Answer = (404, {"reason": "NotFound", "message": "nothing"})


def namespace(name: str, uid: str = "u", owner: str = "") -> dict[str, Any]:
    """A namespace, of a stack when there is an owner."""
    return thing("Namespace", name, uid, owner)


def thing(kind: str, name: str, uid: str = "u", owner: str = "", **more: Any) -> dict[str, Any]:
    """An object, of a stack when there is an owner."""
    ours = {
        "labels": {"app.kubernetes.io/managed-by": "symphony"},
        "annotations": {"symphony/owner": owner},
    }
    return {"kind": kind, "metadata": {"name": name, "uid": uid, **(ours if owner else {})}, **more}
