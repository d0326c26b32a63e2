"""The provider protocol for GKE clusters and node pools: checks them, records them, creates nodes."""

import importlib
import inspect
import re
import sys
from collections.abc import Callable
from functools import cache, wraps
from importlib import metadata
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, plugin_pb2, provider_pb2, provider_pb2_grpc
from pulumi.runtime.rpc import UNKNOWN, wrap_rpc_secret

from toolchain.plugin_gcp import cloud, local_cluster, messages, nodes
from toolchain.plugin_gcp.cloud import Failure
from toolchain.plugin_gcp.messages import CLUSTER, POOL
from toolchain.plugin_gcp.properties import changed_paths, from_struct, path_text, plain, to_struct

NOTICE = "this is symphony's stand-in for the gcp plugin, not Pulumi's own: nothing is made at Google"
# Properties whose change replaces the resource, as far as stacks of symphony set them.
_IDENTITY = (("name",), ("location",), ("project",), ("cluster",), ("region",))
_FIXED = {
    CLUSTER: (("network",), ("subnetwork",), ("networkingMode",), ("nodeConfig",), ("initialNodeCount",)),
    POOL: (
        ("initialNodeCount",),
        ("nodeConfig", "guestAccelerators"),
        ("nodeConfig", "spot"),
        ("nodeConfig", "serviceAccount"),
        ("nodeConfig", "oauthScopes"),
        ("nodeConfig", "shieldedInstanceConfig"),
    ),
    "gcp:serviceaccount/account:Account": (("accountId",),),
    "gcp:artifactregistry/repository:Repository": (("repositoryId",), ("format",)),
}


def guarded(rpc: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an RPC: a Failure becomes a one-line error; any other exception keeps its traceback."""

    @wraps(rpc)
    def call(self: Any, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return rpc(self, request, context)
        except Failure as failure:
            return context.abort(grpc.StatusCode.UNKNOWN, str(failure))

    return call


class Provider(provider_pb2_grpc.ResourceProviderServicer):
    """Serves one provider resource; the engine calls from many threads."""

    def __init__(self, engine_address: str) -> None:
        self._engine_address = engine_address

    def Handshake(self, request: Any, context: Any) -> provider_pb2.ProviderHandshakeResponse:
        self._engine_address = request.engine_address
        return provider_pb2.ProviderHandshakeResponse(
            accept_secrets=True, supports_autonaming_configuration=True
        )

    def GetPluginInfo(self, request: Any, context: Any) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=metadata.version("pulumi-gcp"))

    def Cancel(self, request: Any, context: Any) -> empty_pb2.Empty:
        return empty_pb2.Empty()

    def Configure(self, request: Any, context: Any) -> provider_pb2.ConfigureResponse:
        self._log(NOTICE)
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True, supportsPreview=True, supports_autonaming_configuration=True
        )

    def CheckConfig(self, request: Any, context: Any) -> provider_pb2.CheckResponse:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    @guarded
    def Check(self, request: Any, context: Any) -> provider_pb2.CheckResponse:
        type_, inputs = type_of(request.urn), from_struct(request.news)
        if type_ not in cloud.TYPES:
            raise Failure(f"the stand-in for the gcp plugin makes no {type_}")
        failures = [
            provider_pb2.CheckFailure(
                property=key, reason=f'Unsupported argument: "{key}" is not expected here'
            )
            for key in inputs
            if not key.startswith("__") and key not in _arguments(type_)
        ]
        if not failures and type_ in (CLUSTER, POOL):
            failures = [
                provider_pb2.CheckFailure(reason=f"googleapi: Error 400: {problem}, badRequest")
                for problem in messages.problems(type_, plain(inputs))
            ]
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    @guarded
    def Diff(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        old, new = plain(from_struct(request.old_inputs)), plain(from_struct(request.news))
        fixed = (*_IDENTITY, *_FIXED.get(type_of(request.urn), ()))
        paths = [path for path in changed_paths(old, new) if path[0] not in request.ignoreChanges]
        replaces = [path_text(path) for path in paths if any(_within(path, field) for field in fixed)]
        return provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME if paths else provider_pb2.DiffResponse.DIFF_NONE,
            diffs=sorted({str(path[0]) for path in paths}),
            replaces=replaces,
            deleteBeforeReplace=bool(replaces),
            hasDetailedDiff=True,
            detailedDiff={path_text(path): _kind(path_text(path) in replaces) for path in paths},
        )

    @guarded
    def Create(self, request: Any, context: Any) -> provider_pb2.CreateResponse:
        type_, inputs = type_of(request.urn), from_struct(request.properties)
        if request.preview:
            return provider_pb2.CreateResponse(properties=to_struct({**inputs, **_unknown(type_)}))
        known = plain(inputs)
        if type_ == POOL and cloud.find(_cluster_id(known)) is None:
            raise Failure(f"googleapi: Error 404: Not found: {_cluster_id(known)}., notFound")
        id = cloud.create(type_, known)
        if type_ in (CLUSTER, POOL):
            cloud.take_time()
        self._make_nodes(type_, known)
        return provider_pb2.CreateResponse(
            id=id, properties=to_struct({**inputs, **_computed(type_, known, id)})
        )

    @guarded
    def Update(self, request: Any, context: Any) -> provider_pb2.UpdateResponse:
        type_, inputs = type_of(request.urn), from_struct(request.news)
        known = plain(inputs)
        if not request.preview:
            cloud.update(request.id, known)
            self._make_nodes(type_, known)
        computed = _computed(type_, known, request.id)
        return provider_pb2.UpdateResponse(properties=to_struct({**inputs, **computed}))

    @guarded
    def Read(self, request: Any, context: Any) -> provider_pb2.ReadResponse:
        type_, known = type_of(request.urn), cloud.find(request.id)
        if known is None:
            return provider_pb2.ReadResponse()
        # Google continues an operation although the run that requested it was killed.
        self._make_nodes(type_, known)
        properties = {**known, **_computed(type_, known, request.id)}
        return provider_pb2.ReadResponse(
            id=request.id, properties=to_struct(properties), inputs=to_struct(known)
        )

    @guarded
    def Delete(self, request: Any, context: Any) -> empty_pb2.Empty:
        type_, known = type_of(request.urn), plain(from_struct(request.properties))
        if type_ == CLUSTER and known.get("deletionProtection", True):
            raise Failure(
                "cannot destroy cluster without setting deletion_protection=false and running `pulumi up`"
            )
        client = local_cluster.client() if type_ in (CLUSTER, POOL) else None
        if client is not None:
            cluster, pool = (known["name"], None) if type_ == CLUSTER else (known["cluster"], known["name"])
            nodes.remove(local_cluster.core_api(client), cluster, pool)
        if type_ in (CLUSTER, POOL):
            cloud.take_time()
        cloud.delete(request.id)
        return empty_pb2.Empty()

    def _make_nodes(self, type_: str, known: dict[str, Any]) -> None:
        """Make the nodes of a pool in the local cluster, if one is up."""
        if type_ != POOL:
            return
        client = local_cluster.client()
        if client is None:
            self._log("no local cluster is up, so that no nodes were made")
            return
        nodes.ensure(
            local_cluster.core_api(client), known["cluster"], known["location"], messages.pool_of(known)
        )

    def _log(self, text: str) -> None:
        """Write a line to the log of the run."""
        sys.stderr.write(f"{text}\n")
        if self._engine_address:
            with grpc.insecure_channel(self._engine_address) as channel:
                request = engine_pb2.LogRequest(severity=engine_pb2.INFO, message=text)
                engine_pb2_grpc.EngineStub(channel).Log(request, timeout=5)


def type_of(urn: str) -> str:
    """Return the last type of the URN's chain, such as gcp:container/cluster:Cluster."""
    return urn.split("::")[2].rsplit("$", 1)[-1]


def _within(path: tuple[str | int, ...], field: tuple[str, ...]) -> bool:
    """Return whether a change at the path changes the field, which lies at, above or below it."""
    steps = tuple(step for step in path if isinstance(step, str))
    return steps[: len(field)] == field or field[: len(steps)] == steps


def _kind(replaces: bool) -> provider_pb2.PropertyDiff:
    kind = provider_pb2.PropertyDiff.UPDATE_REPLACE if replaces else provider_pb2.PropertyDiff.UPDATE
    return provider_pb2.PropertyDiff(kind=kind, inputDiff=True)


def _computed(type_: str, inputs: dict[str, Any], id: str) -> dict[str, Any]:
    """Return the properties that Google adds to the requested ones."""
    if type_ == CLUSTER:
        endpoint, authority = local_cluster.endpoint()
        login = {"clusterCaCertificate": authority, "clientKey": wrap_rpc_secret(""), "clientCertificate": ""}
        return {"endpoint": endpoint, "masterAuth": login, "selfLink": id}
    if type_ == "gcp:serviceaccount/account:Account":
        email = id.rpartition("/")[2]
        return {"email": email, "member": f"serviceAccount:{email}", "name": id}
    if type_ == "gcp:artifactregistry/repository:Repository":
        return {"name": inputs["repositoryId"]}
    return {"selfLink": id} if type_.startswith("gcp:compute/") else {}


def _unknown(type_: str) -> dict[str, Any]:
    sample = {"repositoryId": UNKNOWN}
    names = {"endpoint", "masterAuth", "selfLink"} if type_ == CLUSTER else set(_computed(type_, sample, ""))
    return dict.fromkeys(names, UNKNOWN)


def _cluster_id(pool: dict[str, Any]) -> str:
    return cloud.id_of(CLUSTER, {**pool, "name": pool["cluster"]})


@cache
def _arguments(type_: str) -> frozenset[str]:
    """Return the arguments that pulumi_gcp accepts for a resource."""
    _, place, name = type_.split(":")
    module = importlib.import_module(f"pulumi_gcp.{place.partition('/')[0]}")
    signature = inspect.signature(getattr(module, name)._internal_init)
    names = [
        name
        for name in signature.parameters
        if name not in ("__self__", "resource_name", "opts", "__props__")
    ]
    return frozenset(re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), name) for name in names)
