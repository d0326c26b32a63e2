"""The provider protocol: each RPC reads its request, calls one function and writes the answer."""

from __future__ import annotations

from typing import Any

from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2

from toolchain.plugin_kubernetes import immutable, naming, settings, state
from toolchain.plugin_kubernetes.api import access
from toolchain.plugin_kubernetes.api.kinds import UnknownKind
from toolchain.plugin_kubernetes.api.objects import Objects
from toolchain.plugins import differences
from toolchain.plugins.failures import Failure, Unreachable
from toolchain.plugins.provider import StandIn, difference, guarded, type_of
from toolchain.plugins.values import UNKNOWN, from_struct, has_unknown, plain, to_struct


class Provider(StandIn):
    """Serves one provider resource; the engine calls from many threads."""

    name = "kubernetes"
    notice = "this is symphony's stand-in for the Kubernetes plugin, not Pulumi's own"

    def __init__(self, engine_address: str = "") -> None:
        super().__init__(engine_address)
        self._settings = settings.Settings()
        self._objects: Objects | None = None
        self._namespace = "default"

    def Cancel(self, request: Any, context: Any) -> empty_pb2.Empty:
        if self._objects is not None:
            self._objects.cancel()
        return empty_pb2.Empty()

    @guarded
    def CheckConfig(self, request: Any, context: Any) -> provider_pb2.CheckResponse:
        settings.read(plain(from_struct(request.news)))
        return provider_pb2.CheckResponse(inputs=request.news)

    @guarded
    def DiffConfig(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        old, new = plain(from_struct(request.old_inputs or request.olds)), plain(from_struct(request.news))
        changed = sorted({str(each.path[0]) for each in differences.changes(old, new, ())})
        replaces = ["kubeconfig"] if changed and settings.names_another_cluster(old, new) else []
        return provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE,
            diffs=changed,
            replaces=replaces,
        )

    @guarded
    def Configure(self, request: Any, context: Any) -> provider_pb2.ConfigureResponse:
        answer = super().Configure(request, context)
        self._settings = read = settings.read(plain(from_struct(request.args)))
        if read.known:
            reached = access.load(read.kubeconfig, read.context, read.cluster)
            self._namespace = read.namespace or reached.namespace or "default"
            self._objects = Objects(reached, read, self._say)
        return answer

    @guarded
    def Check(self, request: Any, context: Any) -> provider_pb2.CheckResponse:
        inputs = {**_type_of(request.urn), **from_struct(request.news)}
        old = from_struct(request.olds)
        autonaming = request.autonaming if request.HasField("autonaming") else None
        inputs = naming.named(inputs, old, _resource_of(request.urn), request.randomSeed, autonaming)
        if self._objects is not None and self._in_namespace(inputs):
            inputs = naming.in_namespace(inputs, self._namespace)
        return provider_pb2.CheckResponse(inputs=to_struct(state.clean(inputs)))

    @guarded
    def Diff(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        if request.old_inputs == request.news:
            # A state holds no unknowns, so neither do the news.
            return provider_pb2.DiffResponse(
                changes=provider_pb2.DiffResponse.DIFF_NONE, hasDetailedDiff=True
            )
        old, new = from_struct(request.old_inputs), from_struct(request.news)
        old_plain, new_plain = plain(old), plain(new)
        guarded = immutable.fields(new_plain["apiVersion"], new_plain["kind"], self._settings.mutable)
        changes = differences.changes(old_plain, new_plain, guarded)
        same_name = naming.identity(old_plain) == naming.identity(new_plain) and naming.identity(new_plain)[1]
        return difference(changes, in_place=bool(same_name) and not naming.autonamed(new))

    @guarded
    def Create(self, request: Any, context: Any) -> provider_pb2.CreateResponse:
        inputs = from_struct(request.properties)
        if request.preview:
            if self._objects is not None and not has_unknown(inputs):
                self._objects.rehearse_create(inputs)
            return provider_pb2.CreateResponse(properties=to_struct(state.expected(inputs)))
        id, outputs = self._reached().create(inputs, request.timeout)
        return provider_pb2.CreateResponse(id=id, properties=to_struct(outputs))

    @guarded
    def Update(self, request: Any, context: Any) -> provider_pb2.UpdateResponse:
        inputs = from_struct(request.news)
        if request.preview and (self._objects is None or has_unknown(inputs)):
            return provider_pb2.UpdateResponse(properties=to_struct(state.expected(inputs)))
        old = plain(from_struct(request.olds))
        _, outputs = self._reached().update(request.id, old, inputs, request.timeout, preview=request.preview)
        return provider_pb2.UpdateResponse(properties=to_struct(outputs))

    @guarded
    def Read(self, request: Any, context: Any) -> provider_pb2.ReadResponse:
        old, inputs = from_struct(request.properties), from_struct(request.inputs)
        known = plain(inputs) or plain(old) or {}
        type_ = _type_of(request.urn)
        api_version, kind = known.get("apiVersion", type_["apiVersion"]), known.get("kind", type_["kind"])
        try:
            result = self._reached().read(request.id, api_version, kind, plain(old), inputs)
        except Unreachable:
            if not self._settings.delete_unreachable:
                raise
            result = None
        if result is None:
            return provider_pb2.ReadResponse()
        id, outputs, now = result
        return provider_pb2.ReadResponse(id=id, properties=to_struct(outputs), inputs=to_struct(now))

    @guarded
    def Delete(self, request: Any, context: Any) -> empty_pb2.Empty:
        old, inputs = plain(from_struct(request.properties)), plain(from_struct(request.old_inputs))
        try:
            self._reached().delete(request.id, old, inputs, request.timeout)
        except Unreachable:
            if not self._settings.delete_unreachable:
                raise
        return empty_pb2.Empty()

    def _reached(self) -> Objects:
        if self._objects is None:
            raise Failure("the provider's kubeconfig is not known yet")
        return self._objects

    def _in_namespace(self, inputs: dict[str, Any]) -> bool:
        if UNKNOWN in (inputs["apiVersion"], inputs["kind"]):
            return False
        try:
            return self._reached().namespaced(plain(inputs))
        except UnknownKind:  # its definition may come with this very run
            return False


def _type_of(urn: str) -> dict[str, str]:
    """What `kubernetes:core/v1:Pod` says."""
    _, module, kind = type_of(urn).split(":", 2)
    return {"apiVersion": module.removeprefix("core/"), "kind": kind}


def _resource_of(urn: str) -> str:
    return urn.split("::", 3)[3]
