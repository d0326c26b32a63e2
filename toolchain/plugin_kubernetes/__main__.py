"""The program the engine starts: steps aside for a real plugin, else serves until the engine closes it."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

from toolchain.plugin_kubernetes import real

# More than the engine's default of parallel operations; each may be waiting for an object.
THREADS = 128


def main() -> None:
    result = real.find()
    if result is not None:
        os.execv(result, [str(result), *sys.argv[1:]])
    _serve(sys.argv[1] if len(sys.argv) > 1 else "")


def _serve(engine_address: str) -> None:
    from pulumi.runtime.proto import provider_pb2_grpc  # a real plugin must not pay for these

    from symphony import peers
    from toolchain.plugin_kubernetes.provider import Provider

    size = 400 * 1024 * 1024
    server = peers.server(
        ThreadPoolExecutor(THREADS),
        options=[("grpc.max_receive_message_length", size), ("grpc.max_send_message_length", size)],
    )
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Provider(engine_address), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")  # the engine reads it
    sys.stdout.flush()
    # The engine cancels by RPC and ends the plugin by SIGINT; a traceback then would only frighten.
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    server.wait_for_termination()


main()
