"""Serves a stand-in until the engine closes it; steps aside where there is a real plugin."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from toolchain.plugins import real

# More than the engine's default of parallel operations; each may be waiting for an object.
_THREADS = 128
_SIZE = 400 * 1024 * 1024


def main(name: str) -> None:
    """Run the real plugin of that name in our place, or our stand-in for it."""
    result = real.find(name)
    if result is not None:
        os.execv(result, [str(result), *sys.argv[1:]])
    _serve(name, sys.argv[1] if len(sys.argv) > 1 else "")


def _serve(name: str, engine_address: str) -> None:
    """Tell the port on standard output, and answer to this user until the process is ended."""
    # A real plugin must not pay for these.
    import grpc
    from pulumi.runtime.proto import provider_pb2_grpc

    from symphony import own_user_server

    provider = importlib.import_module(f"toolchain.plugin_{name}.provider").Provider(engine_address)
    server: Any = grpc.server(
        ThreadPoolExecutor(_THREADS),
        options=[("grpc.max_receive_message_length", _SIZE), ("grpc.max_send_message_length", _SIZE)],
    )
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)
    port = own_user_server.serve_at_port(server)
    server.start()
    sys.stdout.write(f"{port}\n")  # the engine reads it
    sys.stdout.flush()
    # The engine cancels by RPC and ends the plugin by SIGINT; a traceback then would only frighten.
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    server.wait_for_termination()
