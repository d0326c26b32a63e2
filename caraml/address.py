"""Addresses: from address, host and port, or service to a ZeroMQ endpoint.

>>> resolve(host="localhost", port=7000, bind=False).endpoint
'tcp://127.0.0.1:7000'
>>> resolve(address="[::1]:7000", bind=False).host
'::1'
>>> resolve(address="ipc:///tmp/x.sock", bind=True).endpoint
'ipc:///tmp/x.sock'
"""

import os
from typing import NamedTuple

from caraml import service_env
from caraml.errors import AddressError

LOOPBACK = "127.0.0.1"
_LOCAL_SCHEMES = ("ipc", "inproc")


class Address(NamedTuple):
    """A ZeroMQ endpoint; TCP endpoints have a host and a port (port 0: the system picks one)."""

    endpoint: str
    scheme: str
    host: str | None
    port: int | None

    @property
    def is_ipv6(self) -> bool:
        """Return whether the endpoint names an IPv6 address."""
        return self.host is not None and ":" in self.host

    @property
    def is_loopback(self) -> bool:
        """Return whether the endpoint is TCP with a loopback address."""
        return self.host is not None and (self.host.startswith("127.") or self.host == "::1")


def resolve(
    *,
    bind: bool,
    address: object = None,
    host: str | None = None,
    port: int | str | None = None,
    service: str | None = None,
) -> Address:
    """Return the address of a socket: `address`, else `service`, else `host` and `port`.

    Without a host it is the loopback address, without a scheme TCP; `localhost` means 127.0.0.1.
    Raises AddressError; ServiceVariableError where the service's variables are missing or invalid.
    """
    if address is not None:
        return parse(str(address))
    if service is not None:
        endpoint = service_env.binder_endpoint if bind else service_env.connector_endpoint
        return _tcp(*endpoint(service, dict(os.environ)))
    if port is None:
        raise AddressError("the socket has no address: give a service, an address, or a host and a port")
    if host is not None and "/" in host:
        return parse(f"{host}:{port}")
    return _tcp(LOOPBACK if host is None else host, port)


def parse(text: str) -> Address:
    """Return the address in a text such as `tcp://10.0.0.1:7000`, `*:7000`, `ipc:///run/x`, `inproc://x`."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "tcp", text
    if scheme in _LOCAL_SCHEMES and rest:
        return Address(f"{scheme}://{rest}", scheme, None, None)
    host, colon, port = rest.rpartition(":")
    if scheme != "tcp" or not colon or not host or ("]" not in host and ":" in host):
        raise AddressError(
            f"cannot parse address {text!r}: expected tcp://host:port, ipc://path or inproc://name"
        )
    return _tcp(host, port)


def _tcp(host: str, port: int | str) -> Address:
    bare = host.strip("[]")
    if not bare or any(character.isspace() or character == "/" for character in bare):
        raise AddressError(f"cannot parse host {host!r} of the address: expected tcp://host:port")
    bare = LOOPBACK if bare == "localhost" else bare
    try:
        number = 0 if port == "*" else int(port)
    except ValueError:
        raise AddressError(f"cannot parse port {port!r} of host {host!r}: it is not a number") from None
    if not 0 <= number < 65536:
        raise AddressError(f"port {number} of host {host!r} is not between 0 and 65535")
    bracketed = f"[{bare}]" if ":" in bare else bare
    return Address(f"tcp://{bracketed}:{number or '*'}", "tcp", bare, number)
