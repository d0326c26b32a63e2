"""The fake gcp plugin as a program that the engine starts: `python -m toolchain.plugin_gcp`."""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from pulumi.runtime.proto import provider_pb2_grpc

from symphony import own_user_server
from toolchain.plugin_gcp.provider import Provider

# The engine's default of parallel operations on 32 CPUs: four for each.
_THREADS = 128
_BYTES = 400 * 1024 * 1024


def main() -> None:
    """Print the port on standard output, and serve this user until the process is ended."""
    server: Any = grpc.server(
        ThreadPoolExecutor(_THREADS),
        options=[("grpc.max_receive_message_length", _BYTES), ("grpc.max_send_message_length", _BYTES)],
    )
    provider = Provider(sys.argv[1] if len(sys.argv) > 1 else "")
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)
    port = own_user_server.serve_at_port(server)
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    # The engine cancels by RPC and ends the plugin by SIGINT.
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    server.wait_for_termination()


main()
