"""What every stand-in answers alike to the provider protocol."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import metadata
from typing import Any, ClassVar

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, plugin_pb2, provider_pb2, provider_pb2_grpc

from toolchain.plugins.differences import Change
from toolchain.plugins.failures import Failure, abort

_CHANGE = provider_pb2.PropertyDiff


def guarded(rpc: Callable[..., Any]) -> Callable[..., Any]:
    """Failures end the RPC with one line; anything else is a bug and keeps its traceback."""

    @wraps(rpc)
    def call(self: Any, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return rpc(self, request, context)
        except Failure as failure:
            return abort(context, failure)

    return call


class StandIn(provider_pb2_grpc.ResourceProviderServicer):
    """Serves one provider resource; the engine calls from many threads."""

    name: ClassVar[str]
    notice: ClassVar[str]

    def __init__(self, engine_address: str = "") -> None:
        self._engine_address = engine_address

    def Handshake(self, request: Any, context: Any) -> provider_pb2.ProviderHandshakeResponse:
        self._engine_address = request.engine_address
        return provider_pb2.ProviderHandshakeResponse(
            accept_secrets=True, supports_autonaming_configuration=True
        )

    def GetPluginInfo(self, request: Any, context: Any) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=version(self.name))

    def Cancel(self, request: Any, context: Any) -> empty_pb2.Empty:
        return empty_pb2.Empty()

    def Configure(self, request: Any, context: Any) -> provider_pb2.ConfigureResponse:
        self._say(self.notice)  # nobody must take the stand-in for the real plugin without knowing
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True, supportsPreview=True, supports_autonaming_configuration=True
        )

    def _say(self, text: str) -> None:
        """To the log of the plugin and to that of the run."""
        sys.stderr.write(f"{text}\n")
        if self._engine_address:
            with grpc.insecure_channel(self._engine_address) as channel:
                engine = engine_pb2_grpc.EngineStub(channel)
                engine.Log(engine_pb2.LogRequest(severity=engine_pb2.INFO, message=text), timeout=5)


def difference(changes: Sequence[Change], *, in_place: bool) -> provider_pb2.DiffResponse:
    """The answer of Diff; in_place: what replaces the object may exist only after it is gone."""
    replaces = sorted({each.written() for each in changes if each.replaces})
    answer = provider_pb2.DiffResponse(
        changes=provider_pb2.DiffResponse.DIFF_SOME if changes else provider_pb2.DiffResponse.DIFF_NONE,
        diffs=sorted({str(each.path[0]) for each in changes}),
        replaces=replaces,
        deleteBeforeReplace=bool(replaces) and in_place,
        hasDetailedDiff=True,
    )
    for each in changes:
        kind = f"{each.kind}_REPLACE" if each.replaces else each.kind
        answer.detailedDiff[each.written()].CopyFrom(_CHANGE(kind=getattr(_CHANGE, kind), inputDiff=True))
    return answer


def type_of(urn: str) -> str:
    """`kubernetes:apps/v1:Deployment` at the end of the URN's type chain."""
    return urn.split("::")[2].rsplit("$", 1)[-1]


def version(name: str) -> str:
    """That of the package programs import, because the engine asks for the plugin of that version."""
    try:
        return metadata.version(f"pulumi_{name}")
    except metadata.PackageNotFoundError:
        return "0.0.0"
