"""The provider protocol of Pulumi over gRPC with the real servicer, and names in the state."""

from __future__ import annotations

import base64
import ctypes
import pickle
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format, struct_pb2
from pulumi.runtime import proto
from pulumi.runtime.proto import provider_pb2_grpc

from symphony_tmux import provider
from tests.providers.symphony_tmux.conftest import OWNER


def test_the_serialized_providers_never_change() -> None:
    """These texts are in the state of every user: code that cannot read them cannot delete resources."""
    golden = {
        provider.SESSION_PROVIDER: provider.SessionProvider,
        provider.WINDOW_PROVIDER: provider.WindowProvider,
    }
    assert list(golden) == [
        "gASVMQAAAAAAAACMFnN5bXBob255X3RtdXgucHJvdmlkZXKUjA9TZXNzaW9uUHJvdmlkZXKUk5QpgZQu",
        "gASVMAAAAAAAAACMFnN5bXBob255X3RtdXgucHJvdmlkZXKUjA5XaW5kb3dQcm92aWRlcpSTlCmBlC4=",
    ]
    for text, kind in golden.items():
        assert type(pickle.loads(base64.b64decode(text))) is kind
        assert kind.serialize_as_secret_always is False
    assert provider.SESSION_TYPE == "pulumi-python:dynamic/symphony_tmux:Session"
    assert provider.WINDOW_TYPE == "pulumi-python:dynamic/symphony_tmux:Window"


class Servicer:
    """A client of the dynamic provider host, for one resource."""

    def __init__(self, stub: Any, reference: str) -> None:
        self.stub, self.reference = stub, reference

    def _struct(self, props: dict[str, Any]) -> struct_pb2.Struct:
        return json_format.ParseDict({**props, "__provider": self.reference}, struct_pb2.Struct())

    def _plain(self, value: struct_pb2.Struct) -> dict[str, Any]:
        plain = json_format.MessageToDict(value)
        assert plain.pop("__provider") == self.reference
        return plain

    def check(self, olds: dict[str, Any], news: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        asked = proto.CheckRequest(olds=self._struct(olds) if olds else None, news=self._struct(news))
        result = self.stub.Check(asked)
        return self._plain(result.inputs), [failure.reason for failure in result.failures]

    def create(self, props: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        result = self.stub.Create(proto.CreateRequest(properties=self._struct(props)))
        return result.id, self._plain(result.properties)

    def diff(self, olds: dict[str, Any], news: dict[str, Any]) -> Any:
        return self.stub.Diff(proto.DiffRequest(id="x", olds=self._struct(olds), news=self._struct(news)))

    def update(self, olds: dict[str, Any], news: dict[str, Any]) -> dict[str, Any]:
        asked = proto.UpdateRequest(id="x", olds=self._struct(olds), news=self._struct(news))
        return self._plain(self.stub.Update(asked).properties)

    def read(self, props: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        result = self.stub.Read(proto.ReadRequest(id="x", properties=self._struct(props)))
        return result.id, self._plain(result.properties)

    def delete(self, props: dict[str, Any]) -> None:
        self.stub.Delete(proto.DeleteRequest(id="x", properties=self._struct(props)))


@pytest.fixture
def provider_host(home: Any) -> Iterator[tuple[subprocess.Popen[bytes], Any]]:
    """Yield the configured process of a servicer, and a client of it."""
    command = [sys.executable, "-u", "-m", "symphony_dynamic.host", "x"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        port = int(run.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = provider_pb2_grpc.ResourceProviderStub(channel)
            stub.Configure(proto.ConfigureRequest())
            yield run, stub
        run.kill()


@pytest.fixture
def servicers(provider_host: tuple[subprocess.Popen[bytes], Any]) -> tuple[Servicer, Servicer]:
    _, stub = provider_host
    return Servicer(stub, provider.SESSION_PROVIDER), Servicer(stub, provider.WINDOW_PROVIDER)


SESSION = {"name": "rl", "owner": OWNER, "server": "default", "processes": ["a", "b"], "grace": 1}
WINDOW = {
    "session": "rl",
    "owner": OWNER,
    "server": "default",
    "path": "a",
    "argv": ["sleep", "100"],
    "grace": 1,
}
NONE, SOME = proto.DiffResponse.DIFF_NONE, proto.DiffResponse.DIFF_SOME


def test_create_diff_update_read_delete(servicers: tuple[Servicer, Servicer]) -> None:
    session, window = servicers
    inputs, failures = session.check({}, SESSION)
    assert (inputs, failures) == (SESSION, [])
    session_id, session_outputs = session.create(inputs)
    assert session_id == "default/rl"
    assert session_outputs.items() >= SESSION.items()
    window_id, outputs = window.create(window.check({}, WINDOW)[0])
    assert window_id == "default/rl/a"
    assert outputs.items() >= WINDOW.items()
    assert set(outputs) - set(WINDOW) == {
        *("pane_id", "window_id", "pid", "start_time", "boot_id", "host", "attempt", "log", "socket"),
        *("launched", "digest", "status"),
    }
    assert window.diff(outputs, WINDOW).changes == NONE
    news = {**WINDOW, "argv": ["sleep", "200"]}
    assert window.diff(outputs, news).changes == SOME
    assert not window.diff(outputs, news).replaces
    other = window.diff(outputs, {**WINDOW, "session": "x"})
    assert (list(other.replaces), other.deleteBeforeReplace) == (["session"], True)
    after = window.update(outputs, news)
    assert set(after) == set(outputs)
    assert (after["attempt"], after["argv"]) == (2, ["sleep", "200"])
    session.delete(session_outputs)
    session.delete(session_outputs)
    window.delete(after)


def test_read_of_a_deleted_window_returns_no_id(servicers: tuple[Servicer, Servicer]) -> None:
    session, window = servicers
    _, session_outputs = session.create(SESSION)
    _, outputs = window.create(WINDOW)
    assert window.read(outputs) == ("x", outputs)
    session.delete(session_outputs)
    assert window.read(outputs) == ("", {})


def test_check_failures_name_the_input(servicers: tuple[Servicer, Servicer]) -> None:
    _, window = servicers
    _, failures = window.check({}, {**WINDOW, "path": "../x", "env": {"A B": "1"}})
    assert len(failures) == 1
    assert "not a valid name" in failures[0]


def test_check_accepts_unknown_inputs(servicers: tuple[Servicer, Servicer]) -> None:
    _, window = servicers
    unknown = {**WINDOW, "env": {"A": "04da6b54-80e4-46f7-96ec-b56ff0331ba9"}}
    assert window.check({}, unknown) == (unknown, [])
    assert window.diff({**WINDOW, "host": "x"}, unknown).changes == SOME


def test_symphony_errors_are_one_line_and_bugs_have_a_traceback(servicers: tuple[Servicer, Servicer]) -> None:
    session, window = servicers
    with pytest.raises(grpc.RpcError) as caught:
        window.create({**WINDOW, "cwd": "/no/such"})
    assert str(caught.value.details()).startswith("the start folder /no/such does not exist (a).")
    with pytest.raises(grpc.RpcError) as caught:
        window.diff({}, WINDOW)
    assert "Traceback" in str(caught.value.details())
    session.delete({**SESSION, "host": _host(), "server": "default"})


def _host() -> str:
    from symphony_tmux.processes import process_table

    return process_table.host()


def test_windows_are_created_in_parallel(servicers: tuple[Servicer, Servicer]) -> None:
    session, window = servicers
    paths = [f"p{number}" for number in range(24)]
    _, outputs = session.create({**SESSION, "processes": paths})
    result: dict[str, dict[str, Any]] = {}

    def create(path: str) -> None:
        result[path] = window.create({**WINDOW, "path": path})[1]

    threads = [threading.Thread(target=create, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each["pane_id"] for each in result.values()}) == 24
    session.delete(outputs)


def test_sigint_delivered_to_any_thread_ends_the_provider_host(
    provider_host: tuple[subprocess.Popen[bytes], Any],
) -> None:
    """The engine waits 5 s after the signal; the kernel chooses the thread that gets it."""
    run, stub = provider_host
    Servicer(stub, provider.WINDOW_PROVIDER).check({}, WINDOW)
    threads = sorted(int(each.name) for each in Path(f"/proc/{run.pid}/task").iterdir())
    tgkill = {"x86_64": 234, "aarch64": 131}[platform.machine()]
    assert ctypes.CDLL(None).syscall(tgkill, run.pid, threads[-1], signal.SIGINT) == 0
    assert run.wait(4) == 0
