"""Our gRPC ports answer this user only, wherever another user dials from and from the moment they listen."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2_grpc

from symphony import own_user_server
from symphony.engine import environment, workspace
from symphony.engine.run.inline import InlineRun, workspace_for
from tests.sandbox import ROOT
from tests.security.conftest import UID
from tests.security.stranger import dial

HOST = environment.BIN / "pulumi-resource-pulumi-python"
STAND_IN = ROOT / "toolchain" / "plugin_gcp" / "bin" / "pulumi-resource-gcp"
Calls = Callable[..., dict[str, str]]
TIMES = 20
REFUSED = {"UNAVAILABLE"}


@pytest.fixture(scope="module", params=[HOST, STAND_IN], ids=["dynamic", "gcp"])
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """The port of a provider which the engine has started and not called yet."""
    env = {**os.environ, "PULUMI_PYTHON_CMD": sys.executable}
    with subprocess.Popen([request.param, "127.0.0.1:1"], env=env, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        yield int(run.stdout.readline())
        for process in psutil.Process(run.pid).children():
            process.kill()
        run.kill()


@pytest.fixture
def caller(port: int) -> Iterator[int]:
    """The port that this user's connection comes from, as that of the engine during a run."""
    with dial(("127.0.0.1", 0), port) as connection:
        yield connection.getsockname()[1]


@pytest.mark.parametrize("address", ["127.0.0.2", "::1", "::ffff:127.0.0.1", "127.0.0.1"])
def test_another_user_is_refused(
    port: int, caller: int, address: str, place: Path, stranger_calls: Calls
) -> None:
    """From the port that this user's connection has, where its address allows that."""
    source = caller if address == "127.0.0.2" else 0
    assert set(stranger_calls(port, source=(address, source, TIMES)).values()) == REFUSED
    assert not list(place.glob("unpickled-*"))


def test_another_user_is_refused_at_a_port_that_this_user_had(
    port: int, place: Path, stranger_calls: Calls
) -> None:
    for _ in range(3):
        used = dial(("127.0.0.1", 0), port)
        number = used.getsockname()[1]
        # Closed with a reset, so that the port is free at once.
        used.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        used.close()
        time.sleep(0.01)
        assert set(stranger_calls(port, source=("127.0.0.1", number, 7)).values()) == REFUSED
    assert not list(place.glob("unpickled-*"))


def test_a_connection_that_ended_is_not_taken_for_the_next_one_from_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        first = dial(("127.0.0.1", 0), listener.getsockname()[1])
        accepted, source = listener.accept()
        assert own_user_server.is_own_user(accepted)
        first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        first.close()
        with dial(source, listener.getsockname()[1]), listener.accept()[0] as second:
            assert second.getpeername() == source
            assert own_user_server.is_own_user(second)
            assert not own_user_server.is_own_user(accepted)
        accepted.close()


def test_this_user_is_answered(port: int, stranger_calls: Calls) -> None:
    stranger_calls(port)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub: Any = provider_pb2_grpc.ResourceProviderStub(channel)
        for _ in range(3):
            assert stub.GetPluginInfo(empty_pb2.Empty(), timeout=10).version
    assert stranger_calls(port, uid=os.geteuid())["GetPluginInfo"] == "OK"


@pytest.mark.usefixtures("engine")
def test_a_program_of_a_script_is_served_at_no_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = workspace_for("pi")
    workspace.create_stack(place, "pi")
    listening: list[Any] = []

    def program() -> None:
        connections = psutil.Process().net_connections("tcp")
        listening.extend(each for each in connections if each.status == psutil.CONN_LISTEN)

    with InlineRun("preview", place, "pi", program=program, extra={"SYMPHONY_NETWORK": "host"}) as run:
        list(run)
    assert run.outcome.result == "succeeded"
    assert listening == []


def test_another_user_cannot_enter_the_folder_of_the_sockets(place: Path) -> None:
    from symphony import files

    folder = files.process_folder()
    assert folder.stat().st_mode & 0o077 == 0
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.setuid(UID)
            list(folder.iterdir())
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
