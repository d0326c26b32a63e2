"""Client: sends requests with deadlines to the API server of a cluster.

Connections, TLS and proxies are the official client's. Its generated methods convert every answer to objects,
which takes longer than the answer; here answers are plain values.
"""

from __future__ import annotations

import contextlib
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextvars import ContextVar
from email.utils import parsedate_to_datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode, urlsplit

from symphony.backends.kubernetes.api import kubeconfig
from symphony.backends.kubernetes.api.fields import listing
from symphony.backends.kubernetes.api.kubeconfig import Access
from symphony.errors import SymphonyError

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

CONNECT_DEADLINE = 5.0
ANSWER_DEADLINE = 15.0
# Seconds of retries: an unreachable server is an error well within 30 s.
PATIENCE = 10.0
# For commands that only read.
_SHORT_CONNECT, _SHORT_ANSWER = 2.0, 5.0
# A command sends many requests and must not wait again for a server that did not answer a moment ago.
_RETRY_AFTER = 10.0
_ROLE_REMEDY = "Ask the cluster's administrator for the Role that `symphony rbac` prints, in your namespace"
_RETRIED_STATUSES = (429, 502, 503, 504)
# The Date header has whole seconds, and the response takes time to arrive.
_CLOCK_TOLERANCE = 3.0

# OpenSSL's codes of a certificate for another host or address, and its marks in messages.
_WRONG_HOST_CODES = (62, 64)
_OPENSSL_MARKS = re.compile(r"^_ssl\.c:\d+: |^\[\w+: \w+\] | \(_ssl\.c:\d+\)")

Body = dict[str, Any]
_is_short = ContextVar("short_timeouts", default=False)


class Unreachable(SymphonyError):
    """The API server does not answer."""


class Refused(SymphonyError):
    """The API server refused a request.

    Attributes:
        status: The HTTP status.
        reason: The server's reason word.
        causes: The refused fields, with the reasons.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        what: str,
        remedy: str = "",
        causes: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(what, remedy=remedy)
        self.status = status
        self.reason = reason
        self.causes = causes


class Forbidden(Refused):
    """The server forbids a request (403): the user lacks the right, or a quota or policy refuses it."""


class Client:
    """A client for a cluster as a user; threads may share it.

    Args:
        access: The server and the credentials.
        renew: Reads the access again, since tokens expire.
    """

    def __init__(self, access: Access, renew: Callable[[], Access] | None = None) -> None:
        self.access = access
        self._renew = renew
        self._renewing = threading.Lock()
        self._unreachable: tuple[float, Unreachable] | None = None
        self._date = ("", 0.0)

    @property
    def clock_skew(self) -> float:
        """Seconds by which the server's clock is ahead of this machine's."""
        date, received_at = self._date
        try:
            seconds = parsedate_to_datetime(date).timestamp() - received_at
        except ValueError:
            return 0.0
        return seconds if abs(seconds) > _CLOCK_TOLERANCE else 0.0

    @property
    def is_unreachable(self) -> bool:
        """Return whether the server did not answer a moment ago."""
        return self._unreachable is not None and time.monotonic() - self._unreachable[0] < _RETRY_AFTER

    def mark_unreachable(self, error: Unreachable) -> Unreachable:
        """Remember that the server does not answer, and return the error."""
        self._unreachable = (time.monotonic(), error)
        return error

    def renew_access(self, refused: Access) -> bool:
        """Read the access again after the server refused it; return False if that cannot help."""
        with self._renewing:
            if self._renew is None:
                return False
            if self.access is refused:
                self.access = self._renew()
        return True

    def target(self, path: str, query: Mapping[str, str | int] | None = None) -> str:
        """Return the full path: some servers, such as Rancher's, serve a cluster under a prefix."""
        full_path = urlsplit(self.access.server).path.rstrip("/") + path
        return f"{full_path}?{urlencode(query)}" if query else full_path

    def get(self, path: str, **query: str | int) -> Body:
        """Return an object or a list.

        Raises:
            Refused: The server refuses the request.
            Unreachable: The server does not answer.
        """
        return self.request("GET", path, query)

    def items(self, path: str, **query: str | int) -> list[Body]:
        """Return the objects of a list."""
        return self.get(path, **query).get("items") or []

    def find(self, path: str) -> Body | None:
        """Return an object; None if it does not exist."""
        try:
            return self.get(path)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def delete(self, path: str, uid: str = "", grace: int | None = None) -> None:
        """Delete an object, only if it still has this uid; ignore an object that no longer exists."""
        # Foreground: a Job is gone only when its pods are.
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
        self, method: str, path: str, query: Mapping[str, str | int] | None = None, body: Any = None
    ) -> Body:
        """Return the answer as plain values; retry while the server is briefly unavailable."""
        if self._unreachable is not None and self.is_unreachable:
            raise self._unreachable[1]
        read_timeout = _SHORT_ANSWER if _is_short.get() else ANSWER_DEADLINE
        deadline = time.monotonic() + (_SHORT_CONNECT if _is_short.get() else PATIENCE)
        pause = 0.2
        while True:
            try:
                response = self._send(method, self.target(path, query), read_timeout, body)
            except _http_error() as error:
                is_untrusted = isinstance(error.__cause__, ssl.SSLCertVerificationError)
                if time.monotonic() + pause > deadline or is_untrusted:
                    raise self.mark_unreachable(self.unreachable_error(error)) from error
            else:
                self._date = (response.headers.get("Date") or "", time.time())
                if response.status not in _RETRIED_STATUSES or time.monotonic() + pause > deadline:
                    return decode(response.status, response.data)
            time.sleep(pause)
            pause = min(pause * 2, 2.0)

    @contextlib.contextmanager
    def stream(self, path: str, silence: float, **query: str | int) -> Generator[Iterator[bytes]]:
        """Yield the lines of a streamed answer.

        The iterator raises TimeoutError after `silence` seconds without data, ConnectionError if the answer
        breaks off.
        """
        from urllib3.exceptions import ProtocolError

        def send() -> BaseHTTPResponse:
            return self._send("GET", self.target(path, query), silence, preload_content=False)

        try:
            try:
                response = send()
            except ProtocolError:
                # The server may have closed a kept-alive connection.
                response = send()
        except _http_error() as error:
            raise self.unreachable_error(error) from error
        try:
            if response.status >= 300:
                decode(response.status, response.data)
            yield _lines(response)
        except _http_error() as error:
            raise self.unreachable_error(error) from error
        finally:
            response.close()

    def _send(
        self, method: str, target: str, read_timeout: float, body: Any = None, *, preload_content: bool = True
    ) -> BaseHTTPResponse:
        access = self.access
        response = self._send_once(method, target, read_timeout, body, preload_content)
        if response.status != 401 or not self.renew_access(access):
            return response
        response.close()
        return self._send_once(method, target, read_timeout, body, preload_content)

    def _send_once(
        self, method: str, target: str, read_timeout: float, body: Any, preload_content: bool
    ) -> BaseHTTPResponse:
        import urllib3

        parts = urlsplit(self.access.server)
        headers = self.access.headers.copy()
        headers["Accept"] = "application/json"
        if body is not None:
            headers["Content-Type"] = "application/json"
        connect = _SHORT_CONNECT if _is_short.get() else CONNECT_DEADLINE
        return self.access.pool.request(
            method,
            f"{parts.scheme}://{parts.netloc}{target}",
            body=None if body is None else json.dumps(body).encode(),
            headers=headers,
            timeout=urllib3.Timeout(connect=connect, read=read_timeout),
            preload_content=preload_content,
            redirect=False,
        )

    def unreachable_error(self, error: BaseException) -> Unreachable:
        """Return the error for a server that did not answer."""
        causes = [*_causes(error)]
        cause = causes[-1]
        if isinstance(cause, ssl.SSLCertVerificationError):
            is_of_other = cause.verify_code in _WRONG_HOST_CODES
            name = "tls-server-name or server" if is_of_other else "certificate-authority-data"
            return Unreachable(
                f"the certificate of {self.access.server} is not trusted: {cause.verify_message.rstrip('.')}",
                # 9, 10: not valid yet, expired.
                remedy="Renew that certificate, or set this machine's clock"
                if cause.verify_code in (9, 10)
                else f"Correct {name} of the cluster in the kubeconfig",
            )
        why = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        why = _OPENSSL_MARKS.sub("", why).lower()
        proxy: Any = getattr(self.access.pool, "proxy", None)
        if proxy is not None and any(type(each).__name__ == "ProxyError" for each in causes):
            return Unreachable(
                f"the proxy {proxy.host}:{proxy.port} of the API server does not answer: {why}",
                remedy="Correct HTTPS_PROXY or proxy-url of the cluster, or name the server in NO_PROXY",
            )
        by = f" through the proxy {proxy.host}:{proxy.port}" if proxy is not None else ""
        return Unreachable(
            f"the API server {self.access.server} does not answer{by}: {why}",
            remedy="Check that the cluster runs and that kubectl reaches it",
        )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, which urllib3 partly keeps in its arguments."""
    inner: BaseException | None = error
    while inner is not None:
        yield inner
        first = inner.args[0] if inner.args else None
        inner = inner.__cause__ or (first if isinstance(first, BaseException) else None)


def _http_error() -> type[Exception]:
    """Return the base class of the connections' errors; urllib3 is imported with the first request."""
    from urllib3.exceptions import HTTPError

    return HTTPError


@contextlib.contextmanager
def short_timeouts() -> Generator[None]:
    """Shorten the timeouts during the block, for commands that only read."""
    token = _is_short.set(True)
    try:
        yield
    finally:
        _is_short.reset(token)


@cache
def client_of(config: str, context: str) -> Client:
    """Return the client for a kubeconfig and a context, shared by the whole process."""
    read_access = partial(kubeconfig.access, config, context)
    return Client(read_access(), read_access)


METRICS_API = "/apis/metrics.k8s.io/v1beta1"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_APIS = {"jobs": "/apis/batch/v1", "roles": _RBAC, "rolebindings": _RBAC}


def path_of(kind: str, namespace: str = "", name: str = "") -> str:
    """Return the API path of Jobs, Roles or core objects, such as `pods` of a namespace, or `namespaces`."""
    api = _APIS.get(kind, "/api/v1")
    path = f"{api}/namespaces/{quote(namespace, safe='')}/{kind}" if namespace else f"{api}/{kind}"
    return f"{path}/{quote(name, safe='')}" if name else path


def _lines(response: BaseHTTPResponse) -> Iterator[bytes]:
    from urllib3.exceptions import HTTPError, ReadTimeoutError

    try:
        yield from response
    except ReadTimeoutError as error:
        raise TimeoutError("timed out") from error
    except HTTPError as error:
        raise ConnectionError(str(error) or type(error).__name__) from error


def decode(status: int, raw: bytes) -> Body:
    """Return an answer as plain values.

    Raises:
        Refused: The server refused the request.
    """
    try:
        content: Any = json.loads(raw)
    except (ValueError, RecursionError):
        content = None
    is_object = isinstance(content, dict)
    if status < 300 and is_object:
        return cast("Body", content)
    if status < 400:
        what = f"the server that the kubeconfig names is not a Kubernetes API server (status {status})"
        raise Refused(status, "", what, "Correct the server's address in the kubeconfig")
    body = cast("Body", content) if is_object else {"message": raw.decode(errors="replace")[:200]}
    text = str(body.get("message") or f"the API server answered {status}")
    if status == 401:
        what = "the API server rejected your credentials (401)"
        raise Refused(status, "Unauthorized", what, "Log in to the cluster again")
    if status == 403:
        raise Forbidden(status, str(body.get("reason")), text, _ROLE_REMEDY)
    remedy = "Try again in a moment" if status in _RETRIED_STATUSES or status >= 500 else ""
    details = listing(body, "details", "causes")
    causes = tuple((str(cause.get("field") or ""), str(cause.get("message"))) for cause in details)
    raise Refused(status, str(body.get("reason") or ""), text, remedy, causes)
