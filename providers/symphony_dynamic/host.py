"""Serves dynamic providers as `python -m pulumi.dynamic` does, to this user only.

Pulumi's own host answers every user of the machine, and unpickles what they send.
"""

from __future__ import annotations

import os
import runpy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from symphony import own_user_server
from symphony_dynamic import host_patches

# Where to listen instead of at a port; then the engine itself started us.
SOCKET_VARIABLE = "SYMPHONY_PROVIDER_SOCKET"
# Pulumi's host has 4; the engine asks for four resources a processor at once.
THREADS = 16


_build: Any = grpc.server


def main() -> None:
    """Returns when the engine interrupts it."""
    grpc.server = _server
    runpy.run_module("pulumi.dynamic", run_name="__main__", alter_sys=True)


def _server(*_: Any, **options: Any) -> Any:
    made: Any = _build(ThreadPoolExecutor(THREADS), **options)
    add = made.add_insecure_port
    if path := os.environ.pop(SOCKET_VARIABLE, ""):
        host_patches.has_shell_above = False
        made.add_insecure_port = lambda address: add(f"unix:{path}")  # pyright: ignore[reportUnknownLambdaType]
    else:
        made.add_insecure_port = lambda address: _serve_at_port(made, add)  # pyright: ignore[reportUnknownLambdaType]
    return made


def _serve_at_port(server: Any, add: Any) -> int:
    server.add_insecure_port = add
    return own_user_server.serve_at_port(server)


if __name__ == "__main__":
    main()
