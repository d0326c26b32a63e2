"""The few requests that bringing the cluster up makes to its API server, as its administrator."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any
from urllib.parse import urlsplit

from toolchain.kubernetes.calls import ToolchainError
from toolchain.kubernetes.layout import API_SERVER, Layout

TIMEOUT = 10


class Api:
    """One request a connection: a few dozen requests in all, and none may hang."""

    def __init__(self, layout: Layout) -> None:
        self._context = ssl.create_default_context(cafile=str(layout.certificate("ca")))
        self._context.load_cert_chain(layout.certificate("admin"), layout.key("admin"))

    def ready(self) -> bool:
        """Whether the server answers that it is ready."""
        try:
            return self._send("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def get(self, path: str) -> Any | None:
        """The object or list at this path, None when there is none or the server does not answer."""
        try:
            status, body = self._send("GET", path)
        except OSError:
            return None
        return json.loads(body) if status == 200 else None

    def apply(self, path: str, manifest: dict[str, Any]) -> None:
        """Server-side apply: makes the object or brings it to this form."""
        status, body = self._send("PATCH", f"{path}?fieldManager=symphony-toolchain&force=true", manifest)
        if status not in (200, 201):
            raise ToolchainError(f"the API server refused {path}: {body.decode(errors='replace')[:300]}")

    def delete(self, path: str) -> None:
        """Nothing to do where it is gone already."""
        status, body = self._send("DELETE", path)
        if status not in (200, 202, 404):
            raise ToolchainError(f"the API server refused {path}: {body.decode(errors='replace')[:300]}")

    def _send(self, verb: str, path: str, body: Any = None) -> tuple[int, bytes]:
        server = urlsplit(API_SERVER)
        connection = http.client.HTTPSConnection(
            server.hostname or "", server.port, timeout=TIMEOUT, context=self._context
        )
        headers = {"Content-Type": "application/apply-patch+yaml"} if body is not None else {}
        try:
            connection.request(verb, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()
