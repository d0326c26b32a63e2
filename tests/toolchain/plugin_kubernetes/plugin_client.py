"""Speaks the provider protocol to a stand-in plugin that runs as the engine would run it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

from toolchain.plugins import real
from toolchain.plugins.values import from_struct, to_struct

URN = "urn:pulumi:dev::tests::kubernetes:{token}::{name}"


class Plugin:
    """One plugin process, configured for one provider resource."""

    def __init__(self, program: Path = real.OWN, environment: dict[str, str] | None = None) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by close())
        self.process = subprocess.Popen(
            [program],
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self.process.stdout is not None
        self.first_line = self.process.stdout.readline().strip()
        self._channel = grpc.insecure_channel(f"127.0.0.1:{self.first_line}")
        self.stub = provider_pb2_grpc.ResourceProviderStub(self._channel)

    def close(self) -> None:
        self._channel.close()
        self.process.kill()
        self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def configure(self, **arguments: Any) -> Plugin:
        self.stub.Configure(provider_pb2.ConfigureRequest(args=to_struct(arguments)), timeout=30)
        return self

    def check(
        self,
        inputs: dict[str, Any],
        old: dict[str, Any] | None = None,
        *,
        name: str = "it",
        seed: bytes = b"1",
    ) -> dict[str, Any]:
        request = provider_pb2.CheckRequest(
            urn=urn(inputs, name), olds=to_struct(old or {}), news=to_struct(inputs), randomSeed=seed
        )
        return from_struct(self.stub.Check(request, timeout=60).inputs)

    def diff(self, old: dict[str, Any], new: dict[str, Any]) -> Any:
        request = provider_pb2.DiffRequest(
            urn=urn(new), olds=to_struct(old), old_inputs=to_struct(old), news=to_struct(new)
        )
        return self.stub.Diff(request, timeout=60)

    def create(
        self, inputs: dict[str, Any], *, preview: bool = False, timeout: float = 0
    ) -> tuple[str, dict[str, Any]]:
        request = provider_pb2.CreateRequest(
            urn=urn(inputs), properties=to_struct(inputs), preview=preview, timeout=timeout
        )
        answer = self.stub.Create(request, timeout=120)
        return answer.id, from_struct(answer.properties)

    def make(self, inputs: dict[str, Any], **more: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """Check and create: identity, inputs, outputs."""
        checked = self.check(inputs, **more)
        id, outputs = self.create(checked)
        return id, checked, outputs

    def update(
        self,
        id: str,
        outputs: dict[str, Any],
        inputs: dict[str, Any],
        *,
        preview: bool = False,
        timeout: float = 0,
    ) -> dict[str, Any]:
        request = provider_pb2.UpdateRequest(
            id=id,
            urn=urn(inputs),
            olds=to_struct(outputs),
            news=to_struct(inputs),
            preview=preview,
            timeout=timeout,
        )
        return from_struct(self.stub.Update(request, timeout=120).properties)

    def read(
        self, id: str, token: str, outputs: dict[str, Any] | None = None, inputs: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any], dict[str, Any]]:
        request = provider_pb2.ReadRequest(
            id=id,
            urn=URN.format(token=token, name="it"),
            properties=to_struct(outputs or {}),
            inputs=to_struct(inputs or {}),
        )
        answer = self.stub.Read(request, timeout=60)
        return answer.id, from_struct(answer.properties), from_struct(answer.inputs)

    def delete(self, id: str, outputs: dict[str, Any], inputs: dict[str, Any], *, timeout: float = 0) -> None:
        request = provider_pb2.DeleteRequest(
            id=id,
            urn=urn(inputs),
            properties=to_struct(outputs),
            old_inputs=to_struct(inputs),
            timeout=timeout,
        )
        self.stub.Delete(request, timeout=120)

    def cancel(self) -> None:
        self.stub.Cancel(empty_pb2.Empty(), timeout=10)


def urn(inputs: dict[str, Any], name: str = "it") -> str:
    """As the engine writes it: version v1 of the core group has a name of its own there."""
    version = inputs["apiVersion"]
    module = version if "/" in version else f"core/{version}"
    return URN.format(token=f"{module}:{inputs['kind']}", name=name)


def kept(error: grpc.RpcError) -> provider_pb2.ErrorResourceInitFailed:
    """What the engine keeps in its state although the operation failed."""
    trailer: dict[str, Any] = dict(error.trailing_metadata() or ())  # type: ignore[arg-type]
    status = status_pb2.Status.FromString(trailer["grpc-status-details-bin"])
    detail = provider_pb2.ErrorResourceInitFailed()
    assert status.details[0].Unpack(detail)
    return detail


def manifest(
    kind: str, metadata: dict[str, Any] | None = None, version: str = "v1", **more: Any
) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": metadata or {}, **more}


UID = {"pulumi.com/waitFor": "jsonpath={.metadata.uid}"}


NOWHERE = {"nodeSelector": {"no": "node"}, "containers": [{"name": "c", "image": "none:1"}]}


def config(name: str | None = "it", **data: str) -> dict[str, Any]:
    return manifest("ConfigMap", {"name": name} if name else {}, data=data or {"k": "v"})


def pod(name: str = "it", annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "annotations": UID if annotations is None else annotations}
    return manifest("Pod", metadata, spec={**NOWHERE, **spec})
