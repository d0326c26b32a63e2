"""gRPC ports of symphony answer only this user, from the moment they listen and for every source address."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
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
from symphony.engine.run import start
from symphony.engine.run.run import Run, engine_command, workspace_for
from tests.security.conftest import UID
from tests.security.stranger import dial

HOST = environment.BIN / "pulumi-resource-pulumi-python"
Calls = Callable[..., dict[str, str]]
TIMES = 20
REFUSED = {"UNAVAILABLE"}


def _start_as_plugin(env: dict[str, str], folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start the host as the engine of plain `pulumi` does, after `symphony env`."""
    del folder
    run = subprocess.Popen([HOST, "127.0.0.1:1"], env=env, stdout=subprocess.PIPE)
    assert run.stdout is not None
    return run, int(run.stdout.readline())


def _start_attached(env: dict[str, str], folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start the host as a run in the machine's network does: SYMPHONY_NETWORK=host, or a Kubernetes stack."""
    engine = ["/bin/sh", "-c", f"echo ${start.ATTACHED}; exec sleep 600"]
    place = workspace.Workspace(folder, "p", folder)
    command = engine_command(
        engine, folder, place, env, serves_program=False, skips_checkpoints=False, namespace=False
    )
    run = subprocess.Popen(command, env=env, stdout=subprocess.PIPE)
    assert run.stdout is not None
    return run, int(run.stdout.readline().decode().rpartition(":")[2])


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(_start_as_plugin, id="plugin", marks=pytest.mark.thorough),
        pytest.param(_start_attached, id="attached"),
    ],
)
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """Yield the port of the provider host of an ongoing run."""
    env = {**os.environ, "PULUMI_PYTHON_CMD": sys.executable}
    with tempfile.TemporaryDirectory() as folder:
        run, port = request.param(env, Path(folder))
        with run:
            yield port
            run.kill()


@pytest.fixture
def caller(port: int) -> Iterator[int]:
    """Yield the source port of a connection of this user, such as the engine's during a run."""
    with dial(("127.0.0.1", 0), port) as connection:
        yield connection.getsockname()[1]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.2",
        "127.0.0.1",
        *(pytest.param(each, marks=pytest.mark.thorough) for each in ("::1", "::ffff:127.0.0.1")),
    ],
)
def test_another_user_is_refused(
    port: int, caller: int, address: str, place: Path, stranger_calls: Calls
) -> None:
    """The other user dials from the source port of this user's connection, where the address allows it."""
    source = caller if address == "127.0.0.2" else 0
    assert set(stranger_calls(port, source=(address, source, TIMES)).values()) == REFUSED
    assert not list(place.glob("unpickled-*"))


def test_another_user_is_refused_from_a_source_port_this_user_had(
    port: int, place: Path, stranger_calls: Calls
) -> None:
    for _ in range(3):
        used = dial(("127.0.0.1", 0), port)
        number = used.getsockname()[1]
        # Close with a reset, so that the port is free at once.
        used.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        used.close()
        time.sleep(0.01)
        assert set(stranger_calls(port, source=("127.0.0.1", number, 7)).values()) == REFUSED
    assert not list(place.glob("unpickled-*"))


def test_an_ended_connection_is_not_mistaken_for_a_new_one_from_the_same_port() -> None:
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


def test_the_own_user_is_served(port: int, stranger_calls: Calls) -> None:
    stranger_calls(port)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub: Any = provider_pb2_grpc.ResourceProviderStub(channel)
        for _ in range(3):
            assert stub.GetPluginInfo(empty_pb2.Empty(), timeout=10).version
    assert stranger_calls(port, uid=os.geteuid())["GetPluginInfo"] == "OK"


@pytest.mark.usefixtures("engine")
def test_a_script_opens_no_listening_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = workspace_for("pi")
    workspace.create_stack(place, "pi")
    listening: list[Any] = []

    def program() -> None:
        connections = psutil.Process().net_connections("tcp")
        listening.extend(each for each in connections if each.status == psutil.CONN_LISTEN)

    with Run("preview", place, "pi", program=program, extra={"SYMPHONY_NETWORK": "host"}) as run:
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
