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
from caraml.transport.socket_monitor import ConnectionState, monitor
from caraml.transport.zap import NULL_DOMAIN, secure

log = logging.getLogger("caraml")

_MODES = {
    name: int(getattr(zmq, name))
    for name in ("PULL", "PUSH", "PUB", "SUB", "XPUB", "XSUB", "REQ", "REP", "ROUTER", "DEALER", "PAIR")
}
_MODE_NAMES = {value: name for name, value in _MODES.items()}
_HANDSHAKE_MS = 10_000
_HANDSHAKE_WITH_KEYS_MS = 1500  # so that a silent peer is reported within two seconds
# By default the kernel tries for two minutes. A new attempt has a new port: packets to a Kubernetes Service
# are lost on every connection whose first one came before the node knew the Service.
_CONNECT_MS = 5000
_RECONNECT_MS = 50
_RECONNECT_MAX_MS = 1000
# In bytes. The system's default grows beyond the processor's cache, and a large message within one machine
# then takes up to half as long again. Encrypted connections keep the default: their sender should be far
# ahead of the reader. The receive buffer keeps it too: when small messages overfill one of a fixed size, TCP
# drops segments and retransmits them after a second.
_LOOPBACK_SEND_BUFFER = 1 << 18
_RELEASE_SECONDS = 1.0
_FLAGS_AT = {  # pyzmq's blocking calls, and the position of their argument `flags`
    **dict.fromkeys(["recv", "recv_json", "recv_multipart", "recv_pyobj", "recv_string"], 0),
    **dict.fromkeys(["send", "send_json", "send_multipart", "send_pyobj", "send_string"], 1),
    **{"recv_into": 9, "recv_serialized": 1, "send_serialized": 2},
}


class ZmqSocket:
    """A pyzmq socket with an address; `establish()` binds or connects it.

    Its other attributes are the methods and options of the pyzmq socket.

    Args:
        address: The address; or give `host` and `port`, or `service` (read from the SYMPH_* variables).
        host: See `address`.
        port: See `address`; 0 binds a free port.
        service: See `address`.
        socket_mode: A constant of zmq, or its name.
        bind: True to bind, False to connect.
        context: None for the context of the process. A socket never closes a context that it is given;
            sockets with keys need another one than those without.
        verbose: Ignored: events are logged to the logger `caraml`.
        hwm: The high-water mark for sending and receiving, in messages; by default 1,000 for sending, and
            derived from `limits` for receiving (1,000 with a heartbeat or over inproc).
        keys: A key folder (caraml.keys): only allowed keys may connect.
        limits: The limits on what a peer may send.
        heartbeat: The seconds between heartbeats, None for none.

    Raises:
        AddressError: The address cannot be parsed.
        ServiceVariableError: The service's variables are missing or invalid.
        KeyFileError: A key or the list of allowed clients cannot be used.
        SocketError: ZeroMQ cannot create the socket.
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
        target = resolve(address=address, host=host, port=port, service=service, bind=bind)
        self.address: str = target.endpoint
        self.scheme: str = target.scheme
        self.host: str | None = target.host
        self.port: int | None = target.port
        self.socket_mode = _mode(socket_mode)
        self.bind = bind
        self.established = False
        self.limits = limits
        self.keys = None if keys is None else Keys.parse(keys)
        self.heartbeat = heartbeat
        self.max_unread_bytes = 0  # of one connection; 0 for no bound
        self._inode = -1
        self._wire_timeouts: tuple[int, int] | None = None
        keyed = self.keys is not None and self.scheme != "inproc"
        self.context: zmq.Context[Any] = process.context(keyed) if context is None else context
        self.link = ConnectionState(self.address, bind, keyed=keyed)
        try:
            self._raw: zmq.Socket[Any] = self.context.socket(self.socket_mode, zmq.Socket)
        except zmq.ZMQError as error:
            raise SocketError(
                error.errno, f"{self.address}: could not create a socket: {error.strerror}"
            ) from error
        try:
            self._configure(hwm, target)
        except BaseException:
            self._raw.close(0)
            raise

    def _configure(self, hwm: int | None, target: Address) -> None:
        raw = self._raw
        raw.zap_domain = NULL_DOMAIN  # refuses peers without a ZMTP 3 handshake (ZMTP/1.0, raw TCP)
        raw.maxmsgsize = self.limits.message_bytes
        raw.handshake_ivl = _HANDSHAKE_MS if self.keys is None else _HANDSHAKE_WITH_KEYS_MS
        raw.connect_timeout = _CONNECT_MS
        raw.reconnect_ivl, raw.reconnect_ivl_max = _RECONNECT_MS, _RECONNECT_MAX_MS
        if target.is_ipv6:
            raw.ipv6 = True
        if target.is_loopback and self.keys is None:
            raw.sndbuf = _LOOPBACK_SEND_BUFFER
        max_frame = self.limits.message_bytes
        self.max_unread_bytes = max(self.limits.unread_bytes, 2 * max_frame)
        if hwm is not None:
            raw.set_hwm(hwm)
            self.max_unread_bytes = (hwm + 1) * max_frame if hwm else 0
        elif self.heartbeat is None and self.scheme != "inproc":  # a reached mark stalls heartbeats
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
        return _MODE_NAMES[self.socket_mode]

    @property
    def state(self) -> str:
        """Return a text such as 'PUSH connecting to tcp://127.0.0.1:7000'."""
        if self._raw.closed:
            return f"{self.socket_type}, closed, {self.address}"
        done = ("bound to" if self.bind else "connecting to") if self.established else "not established,"
        return f"{self.socket_type} {done} {self.address}"

    def __repr__(self) -> str:
        return f"<ZmqSocket {self.state}>"

    @property
    def trusted(self) -> bool:
        """Return whether peers are in this process or have an allowed key."""
        return self.scheme == "inproc" or self.keys is not None

    def unwrap(self) -> zmq.Socket[Any]:
        """Return the pyzmq socket."""
        return self._raw

    def record_wire_timeouts(self, receive_ms: int, send_ms: int) -> None:
        """Record the timeouts that a Wire has set: the program's own calls wait beyond them."""
        self._wire_timeouts = receive_ms, send_ms

    def establish(self) -> "ZmqSocket":
        """Bind or connect, once. Raises AddressInUseError, AddressError, SocketError."""
        if self.established:
            return self
        if self.scheme != "inproc":
            monitor(self._raw, self.link)
        try:
            if self.bind:
                self._bind()
            else:
                self._raw.connect(self.address)
        except zmq.ZMQError as error:
            raise self._establish_error(error) from error
        self.established = True
        log.info("[%s] %s %s", self.socket_type, "bound to" if self.bind else "connecting to", self.address)
        return self

    def _bind(self) -> None:
        if self.scheme == "ipc":
            self._refuse_taken_path()
        self._bind_when_released()
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

    def _bind_when_released(self) -> None:
        """Bind; retry for a second, since ZeroMQ releases the address of a closed socket later."""
        give_up = time.monotonic() + _RELEASE_SECONDS
        while True:
            try:
                self._raw.bind(self.address)
                return
            except zmq.ZMQError as error:
                if error.errno != zmq.EADDRINUSE or time.monotonic() > give_up:
                    raise
                time.sleep(0.005)

    def _refuse_taken_path(self) -> None:
        """Raise AddressInUseError if the path is bound: ZeroMQ would take it over silently."""
        path = self.address.removeprefix("ipc://")
        with plain_sockets.socket(plain_sockets.AF_UNIX, plain_sockets.SOCK_STREAM) as probe:
            probe.settimeout(0.5)
            try:
                probe.connect("\0" + path[1:] if path.startswith("@") else path)
            except (ConnectionRefusedError, FileNotFoundError):
                return
            except OSError as error:
                raise AddressError(f"{self.address}: cannot bind: {error.strerror or error}") from error
        raise AddressInUseError(errno.EADDRINUSE, f"{self.address}: the address is already in use")

    def _establish_error(self, error: zmq.ZMQError) -> Exception:
        self.close(0)
        if error.errno == zmq.EADDRINUSE:
            return AddressInUseError(error.errno, f"{self.address}: the address is already in use")
        if error.errno in (errno.EINVAL, errno.ENODEV, zmq.EADDRNOTAVAIL, zmq.EPROTONOSUPPORT):
            return AddressError(f"{self.address}: cannot {self._verb()} this address: {error.strerror}")
        return SocketError(error.errno, f"{self.address}: cannot {self._verb()}: {error.strerror}")

    def _verb(self) -> str:
        return "bind" if self.bind else "connect to"

    def close(self, linger: int | None = None) -> None:
        """Close the socket; unsent messages get `linger` milliseconds (None: as the option says)."""
        if not self._raw.closed:
            if self.established and self.scheme != "inproc":
                self._raw.disable_monitor()
            self._raw.close(linger)
            if self._inode >= 0:
                self._remove_path()

    def _remove_path(self) -> None:
        """Remove the file of an ipc path, which ZeroMQ leaves behind, unless another socket replaced it."""
        path = Path(self.address.removeprefix("ipc://"))
        with contextlib.suppress(OSError):
            if path.stat().st_ino == self._inode:
                path.unlink()

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._raw, name)
        if name.startswith("recv") and self.link.budget is not None and self.link.budget.end():
            self.link.budget = None
        return (
            partial(self._call_until_own_timeout, attribute, name)
            if name in _FLAGS_AT and self._wire_timeouts
            else attribute
        )

    def _call_until_own_timeout(
        self, call: Callable[..., Any], name: str, *arguments: Any, **options: Any
    ) -> Any:
        """Repeat a call that ended by the timeout of the Wire, not by the program's own."""
        position = _FLAGS_AT[name]
        flags = options.get("flags", arguments[position] if len(arguments) > position else 0)
        sending = name.startswith("send")
        while True:
            try:
                return call(*arguments, **options)
            except zmq.Again:
                now = self._raw.sndtimeo if sending else self._raw.rcvtimeo
                own = self._wire_timeouts is None or now != self._wire_timeouts[sending]
                if own or flags & zmq.NOBLOCK or process.closing():
                    raise

    def __setattr__(self, name: str, value: Any) -> None:
        # Attributes that __init__ set before the pyzmq socket are ours; others are options of that socket.
        if name.startswith("_") or name in self.__dict__ or "_raw" not in self.__dict__:
            object.__setattr__(self, name, value)
        else:
            setattr(self._raw, name, value)


def _mode(mode: int | str) -> int:
    if isinstance(mode, str):
        if mode.upper() not in _MODES:
            raise AddressError(
                f"invalid socket_mode {mode!r}, the socket type; expected one of {', '.join(_MODES)}"
            )
        return _MODES[mode.upper()]
    return int(mode)
