"""Reaching a service from this machine: at its address, else by a forwarded connection."""

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
from symphony.backends.kubernetes.remote import port_forward
from symphony.errors import SymphonyError
from tests.backends.kubernetes.scripted_api import MISSING, Answer, Asked, serving
from tests.sandbox import wait_for


class Pod:
    """A stand-in for the connection to a pod: it sends data, records input, and knows that it is closed."""

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
    monkeypatch.setattr("symphony.backends.kubernetes.remote.port_forward._Forwarding._opened", lambda _: pod)
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


def test_a_client_that_has_said_all_gets_its_answer(ends: tuple[socket.socket, Pod]) -> None:
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


def test_one_that_has_gone_is_let_go_of_in_time(
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


def reached(
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
def test_a_load_balancer_is_reached_at_its_address(ingress: list[dict[str, str]], address: str) -> None:
    assert reached(exposed("LoadBalancer", *ingress)).address == address


def test_a_service_behind_which_nothing_runs_has_a_warning() -> None:
    failed = copy.deepcopy(POD)
    failed["status"]["phase"] = "Failed"
    failed["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": 3}}
    balanced = exposed("LoadBalancer", {"ip": "198.51.100.7"})
    assert reached(balanced).warning == ""
    assert reached(balanced, pods=[]).warning == "nothing runs behind board: its pod p is gone"
    assert reached(balanced, pods=[failed]).warning == "nothing runs behind board: p is failed: exit 3"


@pytest.mark.parametrize("kind", ["LoadBalancer", "ClusterIP"])
def test_a_service_without_an_external_address_is_forwarded(kind: str) -> None:
    """A load balancer that the cloud still creates, and a service that is only bound."""
    way = reached(exposed(kind))
    assert way.address == ""
    assert way.forward is not None


def test_a_forward_leads_to_the_port_of_the_pod_behind_the_service() -> None:
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


def test_the_port_of_a_node_is_reached_at_its_address_in_the_backend() -> None:
    def node(outside: str) -> Answer:
        addresses = [
            {"type": "InternalIP", "address": "10.0.0.7"},
            {"type": "ExternalIP", "address": outside},
        ]
        return 200, {"kind": "Node", "status": {"addresses": addresses}}

    with socket.create_server(("127.0.0.2", 0)) as served:
        port = served.getsockname()[1]
        assert reached(exposed("NodePort", node_port=port), node("127.0.0.2")).address == f"127.0.0.2:{port}"
    # Behind a firewall, as a cloud has it unless told otherwise.
    way = reached(exposed("NodePort", node_port=port), node("127.0.0.2"))
    assert way.address == ""
    assert way.forward is not None


@pytest.mark.parametrize(
    "node", [FORBIDDEN, MISSING, (200, {"kind": "Node"})], ids=["hidden", "gone", "inner"]
)
def test_the_port_of_a_node_without_one_is_reached_at_its_own_if_that_answers(node: Answer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as served:
        port = served.getsockname()[1]
        assert reached(exposed("NodePort", node_port=port), node).address == f"127.0.0.1:{port}"
    way = reached(exposed("NodePort", node_port=port), node)
    assert way.address == ""
    assert way.forward is not None


def test_a_service_that_is_gone_is_said() -> None:
    with pytest.raises(SymphonyError, match="no Service board in namespace rl"):
        reached(None)
