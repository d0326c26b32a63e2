"""Who may talk to a socket: the key folder, CURVE options, and the answers ZeroMQ asks for. ZmqSocket calls
it.

A key folder holds `server.public`, `server.secret`, for each client `NAME.public` and `NAME.secret`, and
`allowed`: the public keys of the clients that may connect, one a line. `python -m caraml.keys` makes it. A
binding socket with `keys=folder` is the server and admits the allowed; a connecting one is the client
`client` (or, `keys=folder:NAME`, another). Secrets readable by anybody but their owner are refused, and so is
a list or a folder that somebody else may write.
"""

import itertools
import logging
import os
import stat
import weakref
from pathlib import Path
from typing import Any

import zmq
from zmq.utils import z85

from caraml.errors import CaramlError, KeyFileError

log = logging.getLogger("caraml")

NULL_DOMAIN = b"caraml"
DEFAULT_CLIENT = "client"
ALLOWED = "allowed"


class Keys:
    """A key folder and the client in it that connecting sockets are."""

    def __init__(self, folder: str | Path, client: str = DEFAULT_CLIENT) -> None:
        self.folder = Path(folder)
        self.client = client
        self._allowed: frozenset[bytes] = frozenset()
        self._read_at = -1

    @classmethod
    def of(cls, given: "str | Path | Keys") -> "Keys":
        """Keys as sockets take them: `folder`, `folder:client`, or Keys."""
        if isinstance(given, Keys):
            return given
        folder, colon, client = str(given).rpartition(":")
        return cls(folder, client) if colon and not Path(given).is_dir() else cls(given)

    def public(self, name: str) -> bytes:
        """A public key. Raises KeyFileError."""
        return self._read(self.folder / f"{name}.public")

    def secret(self, name: str) -> bytes:
        """A secret key. Raises KeyFileError, also where others can read it."""
        path = self.folder / f"{name}.secret"
        key = self._read(path)
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise KeyFileError(f"{path} can be read by others; chmod 600 {path}")
        return key

    def allowed(self) -> frozenset[bytes]:
        """The clients' public keys; read again when the file changes, so that removing a line shuts a client
        out.
        """
        path = self.folder / ALLOWED
        try:
            _refuse_writable(self.folder)
            changed = _refuse_writable(path).st_mtime_ns
            if changed != self._read_at:
                words = (line.split()[:1] for line in path.read_bytes().splitlines())
                self._allowed = frozenset(word[0] for word in words if word and len(word[0]) == 40)
                self._read_at = changed
        except KeyFileError:
            raise
        except OSError as error:
            raise KeyFileError(
                f"{path}: {error.strerror}; python -m caraml.keys {self.folder} makes it"
            ) from None
        return self._allowed

    def _read(self, path: Path) -> bytes:
        try:
            key = path.read_bytes().strip()
        except OSError as error:
            raise KeyFileError(
                f"{path}: {error.strerror}; python -m caraml.keys {self.folder} makes it"
            ) from None
        if len(key) != 40:
            raise KeyFileError(f"{path} is not a key: {len(key)} characters, not 40")
        return key


def _refuse_writable(path: Path) -> os.stat_result:
    """Raises KeyFileError for a file or folder in which somebody else may change who is allowed."""
    found = path.stat()
    kept = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX  # what is in it stays its owner's
    if found.st_mode & 0o022 and not kept:
        raise KeyFileError(f"{path} can be written by others; chmod go-w {path}")
    if found.st_uid not in (0, os.geteuid()):
        raise KeyFileError(f"{path} belongs to user {found.st_uid}; it must be yours or root's")
    return found


class Gate:
    """Answers for every context of this process that has a socket with keys, by the socket's domain."""

    def __init__(self) -> None:
        self._domains: dict[bytes, Keys] = {}
        self._contexts: weakref.WeakSet[Any] = weakref.WeakSet()
        self._numbers = itertools.count()

    def claim(self, context: zmq.Context[Any]) -> bool:
        """True the first time a context is named."""
        if context in self._contexts:
            return False
        self._contexts.add(context)
        return True

    def disclaim(self, context: zmq.Context[Any]) -> None:
        """Take back a claim."""
        self._contexts.discard(context)

    def open_domain(self, keys: Keys) -> bytes:
        """A domain in which the allowed of `keys` are admitted."""
        keys.allowed()
        domain = b"caraml-keys-%d" % next(self._numbers)
        self._domains[domain] = keys
        return domain

    def answer(self, request: list[bytes]) -> list[bytes]:
        """The reply to one ZAP request (RFC 27): admitted (200) or not (400)."""
        version, request_id, domain, _, _, mechanism, *credentials = request
        keys = self._domains.get(domain)
        admitted = mechanism == b"NULL"
        if keys is not None:
            try:
                admitted = mechanism == b"CURVE" and z85.encode(credentials[0]) in keys.allowed()
            except (CaramlError, OSError, ValueError, IndexError) as error:
                log.warning("nobody is let in: %s", error)
                admitted = False
        code, text = (b"200", b"OK") if admitted else (b"400", b"key not allowed")
        return [version, request_id, code, text, b"", b""]


gate = Gate()


def secure(raw: zmq.Socket[Any], keys: Keys, bind: bool) -> bool:
    """Set the CURVE options of a socket that has keys; True when its context needs somebody to answer ZAP."""
    if bind:
        raw.curve_server = True
        raw.curve_secretkey = keys.secret("server")
        raw.zap_domain = gate.open_domain(keys)
        return True
    raw.curve_serverkey = keys.public("server")
    raw.curve_publickey = keys.public(keys.client)
    raw.curve_secretkey = keys.secret(keys.client)
    return False
