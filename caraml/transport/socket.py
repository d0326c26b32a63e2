"""ZmqSocket: one ZeroMQ socket with an address, safe options and a monitor of its connections.

>>> receiver = ZmqSocket(address="inproc://doc", socket_mode="PULL", bind=True).establish()
>>> sender = ZmqSocket(address="inproc://doc", socket_mode=zmq.PUSH, bind=False).establish()
>>> sender.send(b"hello")
>>> receiver.recv()
b'hello'
>>> sender.close(), receiver.close()
(None, None)
"""

import contextlib
import errno
import logging
import socket as plain_sockets
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import zmq

from caraml import process
from caraml.address import Address, resolve
from caraml.errors import AddressError, AddressInUseError, SocketError
from caraml.keys import Keys
from caraml.limits import DEFAULT_LIMITS, Limits
from caraml.transport.socket_monitor import Link, watch
from caraml.transport.zap import NULL_DOMAIN, secure

log = logging.getLogger("caraml")

_MODES = {
    name: int(getattr(zmq, name))
    for name in ("PULL", "PUSH", "PUB", "SUB", "XPUB", "XSUB", "REQ", "REP", "ROUTER", "DEALER", "PAIR")
}
_NAMES = {value: name for name, value in _MODES.items()}
_HANDSHAKE_MS = 10_000
_HANDSHAKE_WITH_KEYS_MS = 1500  # a silent peer is reported within two seconds
_RECONNECT_MS = 50
_RECONNECT_MAX_MS = 1000
# In bytes. The system's default grows beyond the processor's own cache: a large message within one
# machine then takes up to half as long again. Not with keys: a sender that encrypts is best far ahead of the
# reader. The reader's own buffer stays the system's: one of a fixed size drops what small messages
# overfill, and the sender then waits a second, and twice that for each further try.
_LOOPBACK_SEND_BUFFER = 1 << 18
_LETTING_GO = 2.0
_MOST_CLOSED = 1024
_FLAGS_AT = {  # the pyzmq calls that block, and which argument their flags are
    **dict.fromkeys(["recv", "recv_json", "recv_multipart", "recv_pyobj", "recv_string"], 0),
    **dict.fromkeys(["send", "send_json", "send_multipart", "send_pyobj", "send_string"], 1),
    **{"recv_into": 9, "recv_serialized": 1, "send_serialized": 2},
}
_closed_at: dict[int | str, float] = {}  # port or path -> time, for all interfaces


class ZmqSocket:
    """A pyzmq socket that knows its address. Made at once, bound or connected by `establish()`.

    `address`, or `host` and `port`, or `service` (read from the SYMPH_* variables); `socket_mode` a constant
    of zmq or its name; `bind` True to bind, False to connect; `context` None for the process's own (a socket
    given a context never closes it; give sockets with keys another than those without); `hwm` the high-water
    mark both ways, in messages (else 1,000 for sending, and by `limits` for receiving); `keys` a key folder
    (caraml.keys), after which only allowed keys connect; `limits` what a peer may send; `heartbeat` seconds
    between heartbeats, None for none. `verbose` is
    accepted and ignored: what happens is logged to the logger `caraml`, never printed.

    Everything else is the pyzmq socket's: methods, options as attributes. Raises AddressError, SocketError.
    """

    def __init__(
        self,
        *,
        address: object = None,
        host: str | None = None,
        port: int | str | None = None,
        service: str | None = None,
        socket_mode: int | str,
        bind: bool,
        context: zmq.Context[Any] | None = None,
        verbose: bool = True,
        hwm: int | None = None,
        keys: "str | Path | Keys | None" = None,
        limits: Limits = DEFAULT_LIMITS,
        heartbeat: float | None = None,
    ) -> None:
        where = resolve(address=address, host=host, port=port, service=service, bind=bind)
        self.address: str = where.endpoint
        self.scheme: str = where.scheme
        self.host: str | None = where.host
        self.port: int | None = where.port
        self.socket_mode = _mode(socket_mode)
        self.bind = bind
        self.established = False
        self.limits = limits
        self.keys = None if keys is None else Keys.of(keys)
        self.heartbeat = heartbeat
        self.unread_bytes = 0  # what one connection may have waiting; 0 for no bound
        self._inode = -1
        self._sliced: tuple[int, int] | None = None
        keyed = self.keys is not None and self.scheme != "inproc"
        self.context: zmq.Context[Any] = process.context(keyed) if context is None else context
        self.link = Link(self.address, bind, keyed=keyed)
        try:
            self._raw: zmq.Socket[Any] = self.context.socket(self.socket_mode, zmq.Socket)
        except zmq.ZMQError as error:
            raise SocketError(
                error.errno, f"{self.address}: could not create a socket: {error.strerror}"
            ) from error
        try:
            self._configure(hwm, where)
        except BaseException:
            self._raw.close(0)
            raise

    def _configure(self, hwm: int | None, where: Address) -> None:
        raw = self._raw
        raw.zap_domain = NULL_DOMAIN  # refuses peers without a security handshake (ZMTP/1.0, raw TCP)
        raw.maxmsgsize = self.limits.message_bytes
        raw.handshake_ivl = _HANDSHAKE_MS if self.keys is None else _HANDSHAKE_WITH_KEYS_MS
        raw.reconnect_ivl, raw.reconnect_ivl_max = _RECONNECT_MS, _RECONNECT_MAX_MS
        if where.is_ipv6:
            raw.ipv6 = True
        if where.is_loopback and self.keys is None:
            raw.sndbuf = _LOOPBACK_SEND_BUFFER
        largest = self.limits.message_bytes
        self.unread_bytes = max(self.limits.unread_bytes, 2 * largest)
        if hwm is not None:
            raw.set_hwm(hwm)
            self.unread_bytes = (hwm + 1) * largest if hwm else 0
        elif self.heartbeat is None and self.scheme != "inproc":  # a mark that is reached stalls heartbeats
            raw.rcvhwm = self.limits.unread_messages()
        if self.heartbeat is not None:
            milliseconds = max(1, round(self.heartbeat * 1000))
            raw.heartbeat_ivl = milliseconds
            raw.heartbeat_timeout = milliseconds * 3 // 2
        if self.keys is not None:
            secure(raw, self.context, self.keys, self.bind)

    @property
    def socket_type(self) -> str:
        """Return the name of the mode, such as 'PUSH'."""
        return _NAMES[self.socket_mode]

    @property
    def state(self) -> str:
        """Return the mode, what was done with the address, and the address."""
        if self._raw.closed:
            return f"{self.socket_type}, closed, {self.address}"
        done = ("bound to" if self.bind else "connected to") if self.established else "not established,"
        return f"{self.socket_type} {done} {self.address}"

    def __repr__(self) -> str:
        return f"<ZmqSocket {self.state}>"

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # a half made object, or one at exit, may lack attributes
            if self.bind and not self._raw.closed:
                _closed_at[self.port or self.address] = time.monotonic()  # pyzmq closes it now

    @property
    def trusted(self) -> bool:
        """Return whether only this process or holders of an allowed key can be the peer."""
        return self.scheme == "inproc" or self.keys is not None

    def unwrap(self) -> zmq.Socket[Any]:
        """Return the pyzmq socket."""
        return self._raw

    def sliced(self, receive_ms: int, send_ms: int) -> None:
        """Note the short timeouts that a Wire has set: the program's own calls wait beyond them."""
        self._sliced = receive_ms, send_ms

    def establish(self) -> "ZmqSocket":
        """Bind or connect, once. Raises AddressInUseError, AddressError, SocketError."""
        if self.established:
            return self
        if self.scheme != "inproc":
            watch(self._raw, self.link)
        try:
            if self.bind:
                self._bind()
            else:
                self._raw.connect(self.address)
        except zmq.ZMQError as error:
            raise self._refused(error) from error
        self.established = True
        log.info("[%s] %s %s", self.socket_type, "bound to" if self.bind else "connecting to", self.address)
        return self

    def _bind(self) -> None:
        if self.scheme == "ipc":
            self._refuse_taken_path()
        self._bind_patiently()
        if self.scheme == "ipc":
            path = self.address.removeprefix("ipc://")
            if not path.startswith("@"):
                Path(path).chmod(0o600)
                self._inode = Path(path).stat().st_ino
        elif self.port == 0:
            endpoint: Any = self._raw.last_endpoint
            self.address = endpoint.decode().rstrip("\0")
            self.port = int(self.address.rpartition(":")[2])
        self.link.endpoint = self.address

    def _bind_patiently(self) -> None:
        """Bind; wait for an address that this process just closed: ZeroMQ releases it in the background."""
        give_up = _closed_at.get(self.port or self.address, -_LETTING_GO) + _LETTING_GO
        while True:
            try:
                self._raw.bind(self.address)
                return
            except zmq.ZMQError as error:
                if error.errno != zmq.EADDRINUSE or time.monotonic() > give_up:
                    raise
                time.sleep(0.005)

    def _refuse_taken_path(self) -> None:
        """Raise AddressInUseError for a path that is bound: ZeroMQ would take it over silently."""
        path = self.address.removeprefix("ipc://")
        with plain_sockets.socket(plain_sockets.AF_UNIX, plain_sockets.SOCK_STREAM) as probe:
            probe.settimeout(0.5)
            try:
                probe.connect("\0" + path[1:] if path.startswith("@") else path)
            except (ConnectionRefusedError, FileNotFoundError):
                return
            except OSError as error:
                raise AddressError(f"{self.address}: {error.strerror or error}") from error
        raise AddressInUseError(errno.EADDRINUSE, f"{self.address}: the address is already in use")

    def _refused(self, error: zmq.ZMQError) -> Exception:
        self.close(0)
        if error.errno == zmq.EADDRINUSE:
            return AddressInUseError(error.errno, f"{self.address}: the address is already in use")
        if error.errno in (errno.EINVAL, errno.ENODEV, zmq.EADDRNOTAVAIL, zmq.EPROTONOSUPPORT):
            return AddressError(f"{self.address}: cannot {self._verb()} this address: {error.strerror}")
        return SocketError(error.errno, f"{self.address}: cannot {self._verb()}: {error.strerror}")

    def _verb(self) -> str:
        return "bind" if self.bind else "connect to"

    def close(self, linger: int | None = None) -> None:
        """Close the socket; `linger` milliseconds for what is unsent (None: as the option says)."""
        if not self._raw.closed:
            if self.established and self.scheme != "inproc":
                self._raw.disable_monitor()
            self._raw.close(linger)
            if self.bind:
                if len(_closed_at) >= _MOST_CLOSED:
                    _closed_at.clear()
                _closed_at[self.port or self.address] = time.monotonic()
            if self._inode >= 0:
                self._remove_path()

    def _remove_path(self) -> None:
        """Remove the file of a path, which ZeroMQ leaves where it took it over from a killed process."""
        path = Path(self.address.removeprefix("ipc://"))
        with contextlib.suppress(OSError):
            if path.stat().st_ino == self._inode:
                path.unlink()

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._raw, name)
        if name.startswith("recv") and self.link.budget is not None:
            self.link.budget.end()
            self.link.budget = None
        return partial(self._patiently, attribute, name) if name in _FLAGS_AT and self._sliced else attribute

    def _patiently(self, call: Callable[..., Any], name: str, *arguments: Any, **options: Any) -> Any:
        """Call again if the timeout that passed was the Wire's, not the program's."""
        position = _FLAGS_AT[name]
        flags = options.get("flags", arguments[position] if len(arguments) > position else 0)
        sending = name.startswith("send")
        while True:
            try:
                return call(*arguments, **options)
            except zmq.Again:
                now = self._raw.sndtimeo if sending else self._raw.rcvtimeo
                own = self._sliced is None or now != self._sliced[sending]
                if own or flags & zmq.NOBLOCK or process.closing():
                    raise

    def __setattr__(self, name: str, value: Any) -> None:
        # Attributes set before there is a pyzmq socket are ours; all others are options of that socket.
        if name.startswith("_") or name in self.__dict__ or "_raw" not in self.__dict__:
            object.__setattr__(self, name, value)
        else:
            setattr(self._raw, name, value)


def _mode(mode: int | str) -> int:
    if isinstance(mode, str):
        if mode.upper() not in _MODES:
            raise AddressError(f"invalid socket_mode {mode!r}; expected one of {', '.join(_MODES)}")
        return _MODES[mode.upper()]
    return int(mode)
