"""The provider protocol for the resources of a cluster on GKE: checks, keeps and makes nodes of them."""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import Any

from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2

from toolchain.plugin_gcp import cloud, local_cluster, messages, nodes
from toolchain.plugin_gcp.messages import CLUSTER, POOL
from toolchain.plugins import differences
from toolchain.plugins.failures import Failure
from toolchain.plugins.provider import StandIn, difference, guarded, type_of
from toolchain.plugins.values import UNKNOWN, Secret, from_struct, plain, to_struct

# What Google replaces when it changes, as far as a stack of ours has it.
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


class Provider(StandIn):
    """Serves one provider resource."""

    name = "gcp"
    notice = "this is symphony's stand-in for the gcp plugin, not Pulumi's own: nothing is made at Google"

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
                provider_pb2.CheckFailure(reason=f"googleapi: Error 400: {each}, badRequest")
                for each in messages.problems(type_, plain(inputs))
            ]
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    @guarded
    def Diff(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        old, new = plain(from_struct(request.old_inputs)), plain(from_struct(request.news))
        fixed = (*_IDENTITY, *_FIXED.get(type_of(request.urn), ()))
        changes = [
            each for each in differences.changes(old, new, fixed) if each.path[0] not in request.ignoreChanges
        ]
        return difference(changes, in_place=True)

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
        self._nodes(type_, known)
        return provider_pb2.CreateResponse(
            id=id, properties=to_struct({**inputs, **_computed(type_, known, id)})
        )

    @guarded
    def Update(self, request: Any, context: Any) -> provider_pb2.UpdateResponse:
        type_, inputs = type_of(request.urn), from_struct(request.news)
        known = plain(inputs)
        if not request.preview:
            cloud.update(request.id, known)
            self._nodes(type_, known)
        computed = _computed(type_, known, request.id)
        return provider_pb2.UpdateResponse(properties=to_struct({**inputs, **computed}))

    @guarded
    def Read(self, request: Any, context: Any) -> provider_pb2.ReadResponse:
        type_, known = type_of(request.urn), cloud.find(request.id)
        if known is None:
            return provider_pb2.ReadResponse()
        # Google goes on where a run that asked was killed.
        self._nodes(type_, known)
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
        requests = local_cluster.connection() if type_ in (CLUSTER, POOL) else None
        if requests is not None:
            cluster, pool = (known["name"], None) if type_ == CLUSTER else (known["cluster"], known["name"])
            nodes.remove(requests, cluster, pool)
        if type_ in (CLUSTER, POOL):
            cloud.take_time()
        cloud.delete(request.id)
        return empty_pb2.Empty()

    def _nodes(self, type_: str, known: dict[str, Any]) -> None:
        if type_ != POOL:
            return
        requests = local_cluster.connection()
        if requests is None:
            self._say("no local cluster is up, so that no nodes were made")
            return
        nodes.ensure(requests, known["cluster"], known["location"], messages.pool_of(known))


def _computed(type_: str, inputs: dict[str, Any], id: str) -> dict[str, Any]:
    """What Google says of it beside what was asked."""
    if type_ == CLUSTER:
        endpoint, authority = local_cluster.endpoint()
        login = {"clusterCaCertificate": authority, "clientKey": Secret(""), "clientCertificate": ""}
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
    """What the package that programs import takes for a resource."""
    import importlib

    _, place, name = type_.split(":")
    module = importlib.import_module(f"pulumi_gcp.{place.partition('/')[0]}")
    signature = inspect.signature(getattr(module, name)._internal_init)
    given = [
        each
        for each in signature.parameters
        if each not in ("__self__", "resource_name", "opts", "__props__")
    ]
    return frozenset(re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), each) for each in given)
