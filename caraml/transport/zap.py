"""The ZAP authenticator (RFC 27): decides which peers may connect to sockets with keys."""

import itertools
import logging
import threading
import weakref
from typing import Any

import zmq
from zmq.utils import z85

from caraml import process
from caraml.errors import CaramlError, SocketError
from caraml.keys import Keys
from caraml.transport.socket_monitor import background_thread, private_socket

log = logging.getLogger("caraml")

NULL_DOMAIN = b"caraml"  # of sockets without keys; ZeroMQ asks about them if the context has an authenticator
_ENDPOINT = "inproc://zeromq.zap.01"


class Authenticator:
    """Answers the ZAP requests of contexts in which sockets with keys bind; each such socket has a domain."""

    def __init__(self) -> None:
        self._domains: dict[bytes, Keys] = {}
        self._lock = threading.Lock()
        self._contexts: weakref.WeakSet[Any] = weakref.WeakSet()
        self._numbers = itertools.count()

    def open_domain(self, keys: Keys) -> bytes:
        """Return a new domain that admits the allowed clients of `keys`. Raises KeyFileError."""
        keys.allowed()  # raises here rather than at each handshake
        domain = b"caraml-keys-%d" % next(self._numbers)
        self._domains[domain] = keys
        return domain

    def answer(self, request: list[bytes]) -> list[bytes]:
        """Return the reply to a ZAP request: admitted (200) or not (400)."""
        version, request_id, domain, _, _, mechanism, *credentials = request
        keys = self._domains.get(domain)
        admitted = mechanism == b"NULL"
        if keys is not None:
            try:
                admitted = mechanism == b"CURVE" and z85.encode(credentials[0]) in keys.allowed()
            except (CaramlError, OSError, ValueError, IndexError) as error:
                log.warning("a connection is refused, because its key cannot be checked: %s", error)
                admitted = False
        code, text = (b"200", b"OK") if admitted else (b"400", b"key not allowed")
        return [version, request_id, code, text, b"", b""]

    def forget_lock(self) -> None:
        """Replace the lock in a forked child: another thread may have held it."""
        self._lock = threading.Lock()

    def start(self, context: zmq.Context[Any]) -> None:
        """Have the background thread answer the ZAP requests of a context.

        Raises SocketError if the context already has another ZAP authenticator.
        """
        with self._lock:
            if context in self._contexts:
                return
            requests = private_socket(context, zmq.REP)
            try:
                requests.bind(_ENDPOINT)
            except zmq.ZMQError as error:
                requests.close(0)
                reason = "the context already has a ZAP authenticator; pass another context or none"
                raise SocketError(error.errno, f"{_ENDPOINT}: {reason}") from error
            self._contexts.add(context)
        background_thread().add(requests, self._serve)

    def _serve(self, requests: zmq.Socket[Any]) -> bool:
        """Answer one request; return False after an error, so that the socket is closed."""
        try:
            requests.send_multipart(self.answer(requests.recv_multipart(zmq.NOBLOCK)))
        except (zmq.ZMQError, ValueError):
            return False
        return True


_authenticator = Authenticator()
process.after_fork(_authenticator.forget_lock)


def secure(raw: zmq.Socket[Any], context: zmq.Context[Any], keys: Keys, bind: bool) -> None:
    """Set the CURVE options of a socket that has keys. Raises KeyFileError, SocketError."""
    if bind:
        raw.curve_server = True
        raw.curve_secretkey = keys.secret("server")
        raw.zap_domain = _authenticator.open_domain(keys)
        _authenticator.start(context)
        return
    raw.curve_serverkey = keys.public("server")
    raw.curve_publickey = keys.public(keys.client)
    raw.curve_secretkey = keys.secret(keys.client)
