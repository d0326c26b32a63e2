"""Serves dynamic providers to the engine as `python -m pulumi.dynamic` does, but to this user only.

    python -m symphony_dynamic.host --attached FOLDER   receives its listener through standard input, and puts
                                                        its gRPC socket into FOLDER
    python -m symphony_dynamic.host ENGINE              prints its port; the engine starts it this way, as
                                                        a plugin, with the engine's address

Pulumi's own host serves every user of the machine, and unpickles their requests. This host recognizes
symphony's providers by their pickled text and never unpickles them. Dynamic providers of the user's program
are unpickled, but only from connections of this user: the host refuses those of other users, unless the
engine runs in a network namespace of its own, where other users cannot connect.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any

import dill  # pyright: ignore[reportMissingTypeStubs]
import grpc
from google.protobuf import empty_pb2
from pulumi import runtime
from pulumi.dynamic import Config, ConfigureRequest, ResourceProvider
from pulumi.runtime import proto, rpc
from pulumi.runtime._serialization import (
    _deserialize,  # pyright: ignore[reportPrivateUsage, reportUnknownVariableType]
)
from pulumi.runtime.proto import provider_pb2_grpc

from symphony import own_user_server
from symphony.errors import SymphonyError

# Pulumi's host has 4; the engine asks for four resources per CPU at once.
THREADS = 16
ENGINE_CHECK_SECONDS = 0.5
OPTIONS = [(f"grpc.max_{way}_message_length", 400 * 1024 * 1024) for way in ("receive", "send")]
# The property of each resource that contains its pickled provider.
PROVIDER = "__provider"
# The pickled providers of symphony, as the state of every user contains them.
OWN_PROVIDERS = {
    "gASVMQAAAAAAAACMFnN5bXBob255X3RtdXgucHJvdmlkZXKUjA9TZXNzaW9uUHJvdmlkZXKUk5QpgZQu": (
        "symphony_tmux.provider",
        "SessionProvider",
    ),
    "gASVMAAAAAAAAACMFnN5bXBob255X3RtdXgucHJvdmlkZXKUjA5XaW5kb3dQcm92aWRlcpSTlCmBlC4=": (
        "symphony_tmux.provider",
        "WindowProvider",
    ),
    "gASVMQAAAAAAAACMGHN5bXBob255X2RvY2tlci5wcm92aWRlcpSMDUltYWdlUHJvdmlkZXKUk5QpgZQu": (
        "symphony_docker.provider",
        "ImageProvider",
    ),
    "gASVNQAAAAAAAACMF3N5bXBob255X3NsdXJtLnByb3ZpZGVylIwSQWxsb2NhdGlvblByb3ZpZGVylJOUKYGULg==": (
        "symphony_slurm.provider",
        "AllocationProvider",
    ),
    "gASVLwAAAAAAAACMF3N5bXBob255X3NsdXJtLnByb3ZpZGVylIwMU3RlcFByb3ZpZGVylJOUKYGULg==": (
        "symphony_slurm.provider",
        "StepProvider",
    ),
}


def _reports_errors(method: Callable[..., Any]) -> Callable[..., Any]:
    """Report errors to the engine: a SymphonyError with its details, others with their traceback."""

    @wraps(method)
    def handle(self: Any, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return method(self, request)
        except SymphonyError as error:
            context.abort(grpc.StatusCode.UNKNOWN, str(error))
        except Exception:
            context.abort(grpc.StatusCode.UNKNOWN, traceback.format_exc())

    return handle


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """The gRPC servicer of the plugin `pulumi-python`; each resource contains its own provider, pickled."""

    def __init__(self) -> None:
        self._providers: dict[str, ResourceProvider] = {}
        self._lock = threading.Lock()
        self._config: dict[str, Any] = {}

    def Attach(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return proto.PluginInfo(version="0.1.0")

    def Configure(self, request: Any, context: Any) -> Any:
        config = rpc.deserialize_properties(request.args)
        self._config = {name: rpc.unwrap_rpc_secret(value) for name, value in config.items()}
        return proto.ConfigureResponse(acceptSecrets=False)

    @_reports_errors
    def Check(self, request: Any) -> Any:
        olds = rpc.deserialize_properties(request.olds, True)
        news = rpc.deserialize_properties(request.news, True)
        result = self._provider(olds, news).check(olds, news)
        failures = [
            proto.CheckFailure(property=failure.property, reason=failure.reason)
            for failure in result.failures
        ]
        return proto.CheckResponse(inputs=_serialized(result.inputs, news), failures=failures)

    @_reports_errors
    def Diff(self, request: Any) -> Any:
        olds = rpc.deserialize_properties(request.olds, True)
        news = rpc.deserialize_properties(request.news, True)
        result = self._provider(olds, news).diff(request.id, olds, news)
        kinds = {None: "DIFF_UNKNOWN", False: "DIFF_NONE", True: "DIFF_SOME"}
        return proto.DiffResponse(
            changes=getattr(proto.DiffResponse, kinds[result.changes]),
            replaces=result.replaces,
            deleteBeforeReplace=bool(result.delete_before_replace),
        )

    @_reports_errors
    def Create(self, request: Any) -> Any:
        props = rpc.deserialize_properties(request.properties)
        result = self._provider(props).create(props)
        return proto.CreateResponse(id=result.id, properties=_serialized(result.outs, props))

    @_reports_errors
    def Update(self, request: Any) -> Any:
        olds, news = rpc.deserialize_properties(request.olds), rpc.deserialize_properties(request.news)
        result = self._provider(news).update(request.id, olds, news)
        return proto.UpdateResponse(properties=_serialized(result.outs, news))

    @_reports_errors
    def Read(self, request: Any) -> Any:
        # A refresh sends the properties of the resource, `Resource.get` only inputs.
        props = rpc.deserialize_properties(request.properties) or rpc.deserialize_properties(request.inputs)
        result = self._provider(props).read(request.id, props)
        inputs = None if result.inputs is None else _serialized(result.inputs, props)
        outputs = _serialized(result.outs, props)
        return proto.ReadResponse(id=result.id or "", properties=outputs, inputs=inputs)

    @_reports_errors
    def Delete(self, request: Any) -> Any:
        props = rpc.deserialize_properties(request.properties)
        self._provider(props).delete(request.id, props)
        return empty_pb2.Empty()

    def _provider(self, *props: dict[str, Any]) -> ResourceProvider:
        """Return the provider that the properties contain; of several, the last one that is not unknown."""
        project = os.environ.get("PULUMI_PROJECT", "project")
        # Pulumi's runtime settings are per thread, and gRPC calls this in any thread of its pool.
        runtime.configure(runtime.Settings(project, stack="stack", organization="organization"))
        pickled: str = next(inputs[PROVIDER] for inputs in reversed(props) if inputs[PROVIDER] != rpc.UNKNOWN)
        with self._lock:
            if pickled not in self._providers:
                provider = _own_provider(pickled) or _unpickle_provider(pickled)
                config = Config(self._config, project)
                provider.configure(ConfigureRequest(config))
                self._providers[pickled] = provider
            return self._providers[pickled]


def _own_provider(pickled: str) -> ResourceProvider | None:
    if pickled not in OWN_PROVIDERS:
        return None
    module, class_name = OWN_PROVIDERS[pickled]
    return getattr(importlib.import_module(module), class_name)()


def _unpickle_provider(pickled: str) -> ResourceProvider:
    # With _deserialize, a provider of the user's program may contain outputs.
    load: Callable[[bytes], Any] = dill.loads  # pyright: ignore
    return _deserialize(lambda: load(base64.b64decode(pickled)))


def _serialized(outputs: dict[str, Any] | None, props: dict[str, Any]) -> Any:
    """Return properties for the engine, with the pickled provider."""
    return asyncio.run(rpc.serialize_properties({**(outputs or {}), PROVIDER: props[PROVIDER]}, {}))


def main() -> None:
    server: Any = grpc.server(ThreadPoolExecutor(THREADS), options=OPTIONS)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Servicer(), server)
    if sys.argv[1] == "--attached":
        with socket.socket(fileno=os.dup(0)) as sender:
            audience, descriptors, _, _ = socket.recv_fds(sender, 64, 1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        listener = socket.socket(fileno=descriptors[0])
        own_user_server.serve(server, listener, sys.argv[2], own_user_only=audience == b"own user")
        server.start()
    else:
        port = own_user_server.serve_at_port(server)
        server.start()
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
    _wait_for_end()
    os._exit(0)


def _do_nothing(number: int, frame: object) -> None:
    """Do nothing: the signal wakes the main thread through `set_wakeup_fd`, and that ends the process."""


def _wait_for_end() -> None:
    """Wait until the engine, the parent of this process, interrupts it or ends."""
    engine = os.getppid()
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _do_nothing)
    # A signal may arrive in any thread, and Python's handler then waits for the main thread.
    signal.set_wakeup_fd(writer.fileno())
    while os.getppid() == engine and not select.select([reader], [], [], ENGINE_CHECK_SECONDS)[0]:
        pass


if __name__ == "__main__":
    main()
