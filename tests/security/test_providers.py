"""The providers answer this user only, from the moment that they listen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2_grpc

from symphony.engine import environment
from toolchain.plugins import real

HOST = environment.BIN / "pulumi-resource-pulumi-python"
Calls = Callable[..., dict[str, str]]


@pytest.fixture(params=[HOST, real.OWN], ids=["dynamic", "kubernetes"])
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """That of a provider which the engine has started and not called yet."""
    env = {**os.environ, "PULUMI_PYTHON_CMD": sys.executable}
    with subprocess.Popen([request.param, "127.0.0.1:1"], env=env, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        yield int(run.stdout.readline())
        subprocess.run(["pkill", "-P", str(run.pid)], check=False)
        run.kill()


def test_another_user_is_refused(port: int, place: Path, stranger_calls: Calls) -> None:
    answers = stranger_calls(port)
    assert {answers.pop(name) for name in ("GetPluginInfo", "Check", "Create")} == {"PERMISSION_DENIED"}
    assert set(answers.values()) == {"UNIMPLEMENTED"}
    assert not list(place.glob("unpickled-*"))


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]"])
def test_this_user_is_answered(port: int, host: str, stranger_calls: Calls) -> None:
    stranger_calls(port)
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        stub: Any = provider_pb2_grpc.ResourceProviderStub(channel)
        for _ in range(3):
            assert stub.GetPluginInfo(empty_pb2.Empty(), timeout=10).version
    assert stranger_calls(port, uid=os.geteuid())["GetPluginInfo"] == "OK"
