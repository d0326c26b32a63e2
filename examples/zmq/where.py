"""Finds the service of a program in this folder: in its experiment, or on this machine without one."""

import os

from caraml import service_env

PORTS = {
    "queue": 7410,
    "echo": 7411,
    "results": 7412,
    "news": 7413,
    "front": 7414,
    "back": 7415,
    "batches": 7416,
    "frames": 7417,
    "vault": 7418,
}
# Seconds that a program waits for its peer: on a cluster, the peer's pod may start minutes later.
PATIENCE = 300


def where(service: str) -> dict:
    """Return the keywords that give a caraml socket its address."""
    if service_env.variable_names(service)[0] in os.environ:
        return {"service": service}
    return {"host": "127.0.0.1", "port": PORTS[service]}


def side(name: str, service: str) -> dict:
    """Return the keywords for one side of a proxy, `in` or `out`."""
    place = where(service)
    if "service" in place:
        return {f"{name}_service": service}
    return {f"{name}_add": "{host}:{port}".format(**place)}
