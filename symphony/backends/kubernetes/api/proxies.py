"""Through which proxy a server is reached, by its kubeconfig or the environment as in kubectl."""

from __future__ import annotations

import base64
import ipaddress
import os
from urllib.parse import unquote, urlsplit

from symphony.errors import UserError


def chosen(server: str, proxy_url: str) -> str:
    """The URL of the proxy, nothing for a straight way. UserError: it is of a kind that we do not speak.

    proxy_url: what the kubeconfig names, which the environment does not change.
    """
    proxy = proxy_url or _of_environment(server)
    if proxy and "://" not in proxy:
        proxy = f"http://{proxy}"
    if proxy and not proxy.startswith("http://"):
        kind = proxy.partition("://")[0]
        raise UserError(
            f"the API server is behind a {kind} proxy, which symphony does not support",
            remedy="Name one that begins with http://, or bypass it with NO_PROXY",
        )
    return proxy


def credentials(proxy: str) -> dict[str, str]:
    """The headers with which a proxy lets us through."""
    place = urlsplit(proxy)
    if place.username is None:
        return {}
    pair = f"{unquote(place.username)}:{unquote(place.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _of_environment(server: str) -> str:
    place = urlsplit(server)
    proxy = _variable(f"{place.scheme}_proxy")
    host = place.hostname or ""
    if proxy and (_is_local(host) or _is_exempt(host, place.port, _variable("no_proxy"))):
        return ""
    return proxy


def _variable(name: str) -> str:
    return os.environ.get(name) or os.environ.get(name.upper()) or ""


def _is_local(host: str) -> bool:
    """This machine is never behind a proxy."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _is_exempt(host: str, port: int | None, no_proxy: str) -> bool:
    """Whether NO_PROXY names the host: itself, a domain it is in, a range of addresses, or `*`."""
    address = _address(host)
    for pattern in (each.strip().lower() for each in no_proxy.split(",")):
        if pattern == "*" or (pattern and port is not None and pattern == f"{host}:{port}"):
            return True
        domain = pattern.removeprefix("*").removeprefix(".")
        if domain and address is None and (host == domain or host.endswith(f".{domain}")):
            return True
        if address is not None and _is_in(address, pattern):
            return True
    return False


def _is_in(address: ipaddress.IPv4Address | ipaddress.IPv6Address, network: str) -> bool:
    try:
        return address in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
