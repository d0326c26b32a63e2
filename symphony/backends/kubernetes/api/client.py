"""Requests to the API server of one cluster: all I/O of this backend; every one of them ends in time.

Our own client, because the official one takes 0.3 to 0.5 s to load, which every command would pay.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from contextvars import ContextVar
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

from symphony.backends.kubernetes.api import kubeconfig, proxies
from symphony.backends.kubernetes.api.kubeconfig import Access
from symphony.errors import SymphonyError

CONNECT_DEADLINE = 5.0
ANSWER_DEADLINE = 15.0
# With two more tries a server that is away is an error well within 30 s.
PATIENCE = 10.0
# Who only looks hears after two seconds that nobody is there, after five that no answer comes.
_HASTE, _HASTY_ANSWER = 2.0, 5.0
# One command asks several times: a server that was just away is not waited for again each time.
_AGAIN = 10.0
_ROLE = "Ask the cluster's administrator for the Role of toolchain/kubernetes/role.yaml in your namespace"
_AWAY = (429, 502, 503, 504)
# The server's clock is told in whole seconds, and its answer was on its way.
_WHOLE_SECONDS = 3.0

Body = dict[str, Any]
_hurried = ContextVar("hurried", default=False)


class Unreachable(SymphonyError):
    """The API server does not answer."""


class Refused(SymphonyError):
    """The API server said no; status is its HTTP status, reason its own word for it."""

    def __init__(self, status: int, reason: str, what: str, remedy: str = "") -> None:
        super().__init__(what, remedy=remedy)
        self.status = status
        self.reason = reason


class Forbidden(Refused):
    """We may not do this: who is no administrator may not look at everything."""


class Client:
    """One cluster as one user; threads may share it."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._own = threading.local()
        self._headers = access.headers
        self._renewing = threading.Lock()
        self._away: tuple[float, Unreachable] | None = None
        self._date = ("", 0.0)

    @property
    def ahead(self) -> float:
        """By how many seconds the server's clock is before ours, as it last answered; it tells whole ones."""
        date, heard = self._date
        try:
            seconds = parsedate_to_datetime(date).timestamp() - heard
        except ValueError:
            return 0.0
        return seconds if abs(seconds) > _WHOLE_SECONDS else 0.0

    @property
    def headers(self) -> Mapping[str, str]:
        """Who we are, as every request says it."""
        return self._headers

    def renewed(self, refused: Mapping[str, str]) -> bool:
        """Whether there are other credentials than those just refused: a token ends while we work."""
        with self._renewing:
            if self._headers is refused and self.access.renew is not None:
                self._headers = self.access.renew()
        return self._headers != refused

    def target(self, path: str, query: Mapping[str, str | int] | None = None) -> str:
        """The path to ask for: some servers, such as Rancher's, keep a cluster under a path of their own."""
        full_path = urlsplit(self.access.server).path.rstrip("/") + path
        return f"{full_path}?{urlencode(query)}" if query else full_path

    def get(self, path: str, **query: str | int) -> Body:
        """One object or one list. Refused: the server says no; Unreachable: it does not answer."""
        return self.request("GET", path, query)

    def items(self, path: str, **query: str | int) -> list[Body]:
        """The objects of one list."""
        return self.get(path, **query).get("items") or []

    def find(self, path: str) -> Body | None:
        """One object, None when there is none."""
        try:
            return self.get(path)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def delete(self, path: str, uid: str = "", grace: int | None = None) -> None:
        """Delete one object, only if it is still the one of this uid; what is gone is no error."""
        # A Job is only gone when its pods are.
        body: Body = {"propagationPolicy": "Foreground" if path.startswith("/apis/") else "Background"}
        if uid:
            body["preconditions"] = {"uid": uid}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        try:
            self.request("DELETE", path, body=body)
        except Refused as refused:
            if refused.status not in (404, 409):
                raise

    def request(
        self, verb: str, path: str, query: Mapping[str, str | int] | None = None, body: Any = None
    ) -> Body:
        """The answer as plain values; a server that is away for a moment is asked again."""
        if self._away is not None and time.monotonic() - self._away[0] < _AGAIN:
            raise self._away[1]
        deadline = time.monotonic() + (_HASTE if _hurried.get() else PATIENCE)
        pause, headers = 0.2, self._headers
        while True:
            try:
                status, raw = self._once(verb, self.target(path, query), body, headers)
                if status == 401 and self.renewed(headers):
                    status, raw = self._once(verb, self.target(path, query), body, self._headers)
            except ssl.SSLCertVerificationError as error:
                raise Unreachable(
                    f"the certificate of {self.access.server} is not trusted: {error.verify_message}"
                ) from error
            except (OSError, http.client.HTTPException) as error:
                if time.monotonic() + pause > deadline:
                    self._away = (time.monotonic(), self.unreachable(error))
                    raise self._away[1] from error
            else:
                if status not in _AWAY or time.monotonic() + pause > deadline:
                    return judged(status, raw)
            time.sleep(pause)
            pause = min(pause * 2, 2.0)

    @contextlib.contextmanager
    def stream(self, path: str, silence: float, **query: str | int) -> Generator[Iterator[bytes]]:
        """The lines of an answer that goes on, over a connection of its own.

        TimeoutError, raised by the iterator: nothing came for so many seconds.
        """
        target, headers = self.target(path, query), self._headers
        with contextlib.ExitStack() as opened:
            answer = self._streamed(opened, target, silence, headers)
            if answer.status == 401 and self.renewed(headers):
                answer = self._streamed(opened, target, silence, self._headers)
            judged(answer.status, self._error_body(answer) if answer.status >= 300 else b"{}")
            yield _lines(answer)

    def _streamed(
        self, opened: contextlib.ExitStack, target: str, silence: float, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        try:
            connection = self.connected(silence)
            opened.callback(connection.close)
            connection.request("GET", target, headers=dict(headers))
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise self.unreachable(error) from error

    def _error_body(self, answer: http.client.HTTPResponse) -> bytes:
        try:
            return answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise self.unreachable(error) from error

    def _once(self, verb: str, target: str, body: Any, credentials: Mapping[str, str]) -> tuple[int, bytes]:
        connection: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        headers = {**credentials, "Accept": "application/json"}
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        try:
            silence = _HASTY_ANSWER if _hurried.get() else ANSWER_DEADLINE
            if connection is None:
                connection = self._own.connection = self.connected(silence)
            elif connection.sock is not None:  # pyright: ignore[reportUnnecessaryComparison]
                connection.sock.settimeout(silence)
            connection.request(verb, target, content, headers)
            answer = connection.getresponse()
            self._date = (answer.getheader("Date") or "", time.time())
            return answer.status, answer.read()
        except BaseException:
            self._own.connection = None
            if connection is not None:
                connection.close()
            raise

    def connected(self, silence: float) -> http.client.HTTPConnection:
        """A new connection of the caller's own, on which waiting ends after so many seconds."""
        deadline = _HASTE if _hurried.get() else CONNECT_DEADLINE
        server, proxy = urlsplit(self.access.server), urlsplit(self.access.proxy)
        host = proxy.netloc.rpartition("@")[2] or server.netloc
        if self.access.proxy and proxy.port is None:
            # That of http; a connection with TLS would take its own.
            host = f"{host.rstrip(':')}:80"
        if self.access.trust is None:
            connection = http.client.HTTPConnection(host, timeout=deadline)
        else:
            connection = _Https(host, timeout=deadline, context=self.access.trust)
            connection.certified_as, connection.trust = self.access.server_name, self.access.trust
        if self.access.proxy:
            port = server.port or (443 if self.access.trust else 80)
            connection.set_tunnel(server.hostname or "", port, proxies.credentials(self.access.proxy))
        connection.connect()
        connection.sock.settimeout(silence)
        return connection

    def unreachable(self, error: Exception) -> Unreachable:
        """What to raise when the server did not answer."""
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Unreachable(
            f"the API server {self.access.server} does not answer: {why.lower()}",
            remedy="Check that the cluster runs and that kubectl reaches it",
        )


class _Https(http.client.HTTPSConnection):
    """A connection to a server whose certificate may be for another name than its address."""

    certified_as = ""
    trust: ssl.SSLContext | None = None

    def connect(self) -> None:
        if not self.certified_as:
            super().connect()
            return
        http.client.HTTPConnection.connect(self)
        assert self.trust is not None
        self.sock = self.trust.wrap_socket(self.sock, server_hostname=self.certified_as)


@contextlib.contextmanager
def hurried() -> Generator[None]:
    """While the block runs, a server that is away is not waited for long: somebody only looks."""
    token = _hurried.set(True)
    try:
        yield
    finally:
        _hurried.reset(token)


@cache
def client_of(config: str, context: str) -> Client:
    """The client of a kubeconfig and a context; one for the whole process."""
    return Client(kubeconfig.access(config, context))


def pods_path(namespace: str, name: str = "") -> str:
    """Where pods are."""
    return path_of("pods", namespace, name)


def path_of(kind: str, namespace: str = "", name: str = "") -> str:
    """Where core objects are: `pods` of a namespace, `namespaces` themselves."""
    place = f"/api/v1/namespaces/{quote(namespace, safe='')}/{kind}" if namespace else f"/api/v1/{kind}"
    return f"{place}/{quote(name, safe='')}" if name else place


def _lines(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """The lines of an answer. OSError: it broke off."""
    try:
        yield from answer
    except http.client.HTTPException as error:
        raise ConnectionError(str(error) or type(error).__name__) from error
    # The library takes a connection that ends between two pieces for the end of the answer.
    if isinstance(getattr(answer, "chunk_left", None), int) or answer.length:
        raise ConnectionError("the connection ended before the response did")


def judged(status: int, raw: bytes) -> Body:
    """The answer as plain values. Refused: the server said no."""
    try:
        content: Any = json.loads(raw)
    except (ValueError, RecursionError):
        content = None
    known = isinstance(content, dict)
    if status < 300 and known:
        return cast("Body", content)
    if status < 400:
        what = f"the response is not from a Kubernetes API server (status {status})"
        raise Refused(status, "", what, "Correct the server's address in the kubeconfig")
    body = cast("Body", content) if known else {"message": raw.decode(errors="replace")[:200]}
    text = str(body.get("message") or f"the API server answered {status}")
    if status == 401:
        raise Refused(status, "Unauthorized", "the API server does not know who you are", "Log in again")
    if status == 403:
        raise Forbidden(status, str(body.get("reason")), text, _ROLE)
    remedy = "Try again in a moment" if status in _AWAY or status >= 500 else ""
    raise Refused(status, str(body.get("reason") or ""), text, remedy)
