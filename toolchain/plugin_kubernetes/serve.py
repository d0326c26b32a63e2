"""Serves a provider until the engine closes it, to this user only."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

from pulumi.runtime.proto import provider_pb2_grpc

from symphony import peers

# More than the engine's default of parallel operations; each may be waiting for an object.
_THREADS = 128
_SIZE = 400 * 1024 * 1024


def serve(provider: provider_pb2_grpc.ResourceProviderServicer) -> None:
    """Tell the port on standard output, and answer until the process is ended."""
    server = peers.server(
        ThreadPoolExecutor(_THREADS),
        options=[("grpc.max_receive_message_length", _SIZE), ("grpc.max_send_message_length", _SIZE)],
    )
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")  # the engine reads it
    sys.stdout.flush()
    # The engine cancels by RPC and ends the plugin by SIGINT; a traceback then would only frighten.
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    server.wait_for_termination()
