"""How `symphony visit` reaches a service: at its external address, else through a port forward."""

from __future__ import annotations

import copy
import socket
from collections.abc import Sequence
from typing import Any

import pytest

from symphony.backends.access import ServiceRoute
from symphony.backends.kubernetes import port_forward
from symphony.errors import SymphonyError
from tests.backends.kubernetes.scripted_api import MISSING, Answer, Asked, serving
from tests.sandbox import wait_for

FORBIDDEN: Answer = (403, {"reason": "Forbidden", "message": "nodes is forbidden"})
INNER: Answer = (200, {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.7"}]}})
POD = {
    "metadata": {"name": "p", "labels": {"symphony/pod": "p"}},
    "spec": {"nodeName": "far", "containers": [{"name": "p"}]},
    "status": {
        "phase": "Running",
        "hostIP": "127.0.0.1",
        "containerStatuses": [{"name": "p", "state": {"running": {"startedAt": "2026-01-01T00:00:05Z"}}}],
    },
}


def exposed(kind: str, *ingress: dict[str, str], node_port: int = 31234) -> dict[str, Any]:
    port = {"name": "service", "port": 6006, "targetPort": 6006, "nodePort": node_port}
    return {
        "kind": "Service",
        "metadata": {"name": "board"},
        "spec": {"type": kind, "ports": [port], "selector": {"symphony/pod": "p"}},
        "status": {"loadBalancer": {"ingress": [*ingress]} if ingress else {}},
    }


def route_to(
    service: dict[str, Any] | None, node: Answer = MISSING, pods: Sequence[dict[str, Any]] = (POD,)
) -> ServiceRoute:
    """Return the route of `visit` to a service, in a cluster of one pod on one node."""

    def answer(asked: Asked) -> Answer:
        path = asked.path.partition("?")[0]
        if path == "/api/v1/namespaces/rl/services/board":
            return MISSING if service is None else (200, service)
        if path == "/api/v1/namespaces/rl/pods":
            return 200, {"items": [*pods]}
        assert path == "/api/v1/nodes/far", path
        return node

    with serving(answer) as api:
        return port_forward.route(api.client(), "rl", "board")


@pytest.mark.parametrize(
    ("ingress", "address"),
    [
        ([{"ip": "198.51.100.7"}], "198.51.100.7:6006"),
        ([{"hostname": "lb-1.elb.test"}], "lb-1.elb.test:6006"),
        ([{"ip": "2001:db8::7"}], "[2001:db8::7]:6006"),
        ([{}, {"ip": "198.51.100.8"}], "198.51.100.8:6006"),
    ],
    ids=["ip", "hostname", "IPv6", "the first that has one"],
)
def test_visit_uses_the_address_of_a_load_balancer(ingress: list[dict[str, str]], address: str) -> None:
    assert route_to(exposed("LoadBalancer", *ingress)).address == address


def test_visit_warns_when_no_pod_runs_behind_the_service() -> None:
    failed = copy.deepcopy(POD)
    failed["status"]["phase"] = "Failed"
    failed["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": 3}}
    balanced = exposed("LoadBalancer", {"ip": "198.51.100.7"})
    assert route_to(balanced).warning == ""
    assert route_to(balanced, pods=[]).warning == "no process serves board: its pod p no longer exists"
    assert route_to(balanced, pods=[failed]).warning == "no process serves board: p is failed: exit 3"


@pytest.mark.parametrize("kind", ["LoadBalancer", "ClusterIP"])
def test_visit_forwards_a_service_without_external_address(kind: str) -> None:
    """A load balancer that is still being created, and a ClusterIP service."""
    way = route_to(exposed(kind))
    assert way.address == ""
    assert way.forward is not None


def test_visit_forwards_to_the_target_port_of_the_live_pod() -> None:
    bound = exposed("ClusterIP")
    bound["spec"] |= {"clusterIP": "None", "ports": [{"name": "service", "port": 80, "targetPort": 6007}]}
    gone = {**POD, "metadata": {"name": "gone", "deletionTimestamp": "2026-01-01T00:00:00Z"}}

    def answer(asked: Asked) -> Answer:
        if asked.path.endswith("/services/board"):
            return 200, bound
        return (200, {"items": [gone, POD]}) if "/pods?" in asked.path else MISSING

    with serving(answer) as api:
        way = port_forward.route(api.client(), "rl", "board")
        assert way.forward is not None
        with way.forward() as opened:
            host, _, port = opened.address.rpartition(":")
            assert host == "127.0.0.1"
            with socket.create_connection((host, int(port)), 5) as connection:
                assert connection.recv(1) == b""
        wait_for(
            lambda: "/api/v1/namespaces/rl/pods/p/portforward?ports=6007" in api.paths("GET"), 5, "asked"
        )


OUTER: Answer = (200, {"status": {"addresses": [{"type": "ExternalIP", "address": "127.0.0.2"}]}})


@pytest.mark.parametrize(
    ("node", "host"),
    [(OUTER, "127.0.0.2"), (INNER, "127.0.0.1"), (FORBIDDEN, "127.0.0.1"), (MISSING, "127.0.0.1")],
    ids=["outside", "inside", "hidden", "gone"],
)
def test_visit_of_a_node_port_uses_the_address_of_its_node_if_that_answers(node: Answer, host: str) -> None:
    with socket.create_server((host, 0)) as served:
        port = served.getsockname()[1]
        assert route_to(exposed("NodePort", node_port=port), node).address == f"{host}:{port}"
    # Behind a firewall, as by default in a cloud.
    way = route_to(exposed("NodePort", node_port=port), node)
    assert way.address == ""
    assert way.forward is not None


def test_visit_of_a_missing_service_is_an_error() -> None:
    with pytest.raises(SymphonyError, match="the Service board no longer exists in namespace rl"):
        route_to(None)
