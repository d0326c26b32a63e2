"""The engine and the states of users rely on the names of the providers, and on how their host ends."""

from __future__ import annotations

import base64
import ctypes
import pickle
import platform
import signal
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from google.protobuf import struct_pb2
from pulumi.runtime import proto
from pulumi.runtime.proto import provider_pb2_grpc

import symphony_docker.provider as docker
import symphony_slurm.provider as slurm
import symphony_tmux.provider as tmux
from symphony.operations.plan import IMAGE

TYPE = "pulumi-python:dynamic/symphony_"


@pytest.mark.parametrize(
    ("kind", "type_", "name", "text"),
    [
        (
            tmux.SessionProvider,
            tmux.SESSION_TYPE,
            "tmux:Session",
            "gASVMQAAAAAAAACMFnN5bXBob255X3RtdXgucHJvdmlkZXKUjA9TZXNzaW9uUHJvdmlkZXKUk5QpgZQu",
        ),
        (
            tmux.WindowProvider,
            tmux.WINDOW_TYPE,
            "tmux:Window",
            "gASVMAAAAAAAAACMFnN5bXBob255X3RtdXgucHJvdmlkZXKUjA5XaW5kb3dQcm92aWRlcpSTlCmBlC4=",
        ),
        (
            slurm.AllocationProvider,
            slurm.ALLOCATION_TYPE,
            "slurm:Allocation",
            "gASVNQAAAAAAAACMF3N5bXBob255X3NsdXJtLnByb3ZpZGVylIwSQWxsb2NhdGlvblByb3ZpZGVylJOUKYGULg==",
        ),
        (
            slurm.StepProvider,
            slurm.STEP_TYPE,
            "slurm:Step",
            "gASVLwAAAAAAAACMF3N5bXBob255X3NsdXJtLnByb3ZpZGVylIwMU3RlcFByb3ZpZGVylJOUKYGULg==",
        ),
        (
            docker.ImageProvider,
            docker.TYPE,
            "docker:Image",
            "gASVMQAAAAAAAACMGHN5bXBob255X2RvY2tlci5wcm92aWRlcpSMDUltYWdlUHJvdmlkZXKUk5QpgZQu",
        ),
    ],
)
def test_the_serialized_provider_and_its_type_never_change(
    kind: type[tmux.WindowProvider], type_: str, name: str, text: str
) -> None:
    """The text is in the state of every user: code that cannot read it cannot delete resources."""
    assert kind.state_text() == text
    assert type(pickle.loads(base64.b64decode(text))) is kind
    assert kind.serialize_as_secret_always is False
    assert type_ == TYPE + name


def test_images_of_a_plan_have_the_type_of_their_provider() -> None:
    assert docker.TYPE == IMAGE


def test_sigint_delivered_to_any_thread_ends_the_provider_host() -> None:
    """The engine waits 5 s after the signal; the kernel chooses the thread that gets it."""
    inputs = struct_pb2.Struct()
    inputs.update({"__provider": tmux.WINDOW_PROVIDER})
    command = [sys.executable, "-u", "-m", "symphony_dynamic.host", "x"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        with grpc.insecure_channel(f"127.0.0.1:{int(host.stdout.readline())}") as channel:
            provider_pb2_grpc.ResourceProviderStub(channel).Check(proto.CheckRequest(news=inputs))
            threads = sorted(int(each.name) for each in Path(f"/proc/{host.pid}/task").iterdir())
            tgkill = {"x86_64": 234, "aarch64": 131}[platform.machine()]
            assert ctypes.CDLL(None).syscall(tgkill, host.pid, threads[-1], signal.SIGINT) == 0
            assert host.wait(4) == 0
