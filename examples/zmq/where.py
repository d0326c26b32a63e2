"""Where a program of this folder finds its service: of the experiment it runs in, or on this machine when run
by hand.
"""

import os

from caraml import contract

PORTS = {
    "queue": 7410,
    "echo": 7411,
    "results": 7412,
    "news": 7413,
    "front": 7414,
    "back": 7415,
    "batches": 7416,
}


def where(service: str) -> dict:
    """The keywords that give a caraml socket its address."""
    if contract.variable_names(service)[0] in os.environ:
        return {"service": service}
    return {"host": "127.0.0.1", "port": PORTS[service]}


def address(service: str, bind: bool = False) -> str:
    """The same as one address, for a proxy, which has two."""
    if contract.variable_names(service)[0] in os.environ:
        endpoint = contract.binder_endpoint if bind else contract.connector_endpoint
        host, port = endpoint(service, dict(os.environ))
        return f"tcp://{host}:{port}"
    return f"tcp://127.0.0.1:{PORTS[service]}"
