"""How `symphony visit` reaches a service: at its external address, else through a port forward."""

from __future__ import annotations

import copy
import queue
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from symphony.backends.access import ServiceRoute
from symphony.backends.kubernetes import port_forward
from symphony.errors import SymphonyError
from tests.backends.kubernetes.scripted_api import MISSING, Answer, Asked, serving
from tests.sandbox import wait_for


class Pod:
    """A fake connection to a pod: sends data, records input, and notices when it is closed."""

    def __init__(self) -> None:
        self.says: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.heard: list[bytes] = []
        self.closed = threading.Event()

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        yield 0, b"its port"
        while data := self.says.get():
            yield 0, data

    def send(self, channel: int, data: bytes) -> None:
        self.heard.append(data)

    def close(self) -> None:
        self.closed.set()
        self.says.put(b"")

    def __enter__(self) -> Pod:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[socket.socket, Pod]]:
    """Yield the client's end of a forwarded connection, and the pod's."""
    pod = Pod()
    monkeypatch.setattr("symphony.backends.kubernetes.port_forward._Forwarding._connect", lambda _: pod)
    ours, theirs = socket.socketpair()
    nothing: Any = None
    with socket.create_server(("127.0.0.1", 0)) as server:
        forwarding = port_forward._Forwarding(nothing, "n", "s", server)
        carrying = threading.Thread(target=forwarding._carry, args=(theirs,))
        carrying.start()
        ours.settimeout(10)
        yield ours, pod
        ours.close()
        pod.close()
        carrying.join(10)


def test_a_client_that_closed_its_sending_side_still_gets_the_answer(ends: tuple[socket.socket, Pod]) -> None:
    client, pod = ends
    client.sendall(b"question")
    client.shutdown(socket.SHUT_WR)
    time.sleep(0.3)
    assert not pod.closed.is_set()
    for piece in (b"ans", b"wer"):
        pod.says.put(piece)
        time.sleep(0.1)
    pod.says.put(b"")
    assert client.makefile("rb").read() == b"answer"
    assert pod.heard == [b"question"]


def test_the_connection_to_the_pod_is_closed_after_the_client_left(
    ends: tuple[socket.socket, Pod], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, pod = ends
    monkeypatch.setattr(port_forward, "_LINGER", 0.2)
    client.close()
    assert pod.closed.wait(5)


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


def test_visit_uses_the_external_address_of_a_node_port_if_it_answers() -> None:
    def node(outside: str) -> Answer:
        addresses = [
            {"type": "InternalIP", "address": "10.0.0.7"},
            {"type": "ExternalIP", "address": outside},
        ]
        return 200, {"kind": "Node", "status": {"addresses": addresses}}

    with socket.create_server(("127.0.0.2", 0)) as served:
        port = served.getsockname()[1]
        assert route_to(exposed("NodePort", node_port=port), node("127.0.0.2")).address == f"127.0.0.2:{port}"
    # Behind a firewall, as by default in a cloud.
    way = route_to(exposed("NodePort", node_port=port), node("127.0.0.2"))
    assert way.address == ""
    assert way.forward is not None


@pytest.mark.parametrize(
    "node", [FORBIDDEN, MISSING, (200, {"kind": "Node"})], ids=["hidden", "gone", "inner"]
)
def test_visit_of_a_node_port_without_external_address_tries_the_api_server_host(node: Answer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as served:
        port = served.getsockname()[1]
        assert route_to(exposed("NodePort", node_port=port), node).address == f"127.0.0.1:{port}"
    way = route_to(exposed("NodePort", node_port=port), node)
    assert way.address == ""
    assert way.forward is not None


def test_visit_of_a_missing_service_is_an_error() -> None:
    with pytest.raises(SymphonyError, match="the Service board no longer exists in namespace rl"):
        route_to(None)
