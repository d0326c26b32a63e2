"""Pods that lose their node, whose secret file changes, or whose registry needs a login."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.backends.kubernetes.test_runs import Live, becomes, uids, up
from tests.sandbox import Sandbox, wait_for
from toolchain.kubernetes.fixtures import Access as Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]
Kubectl = Callable[..., str]


@pytest.fixture
def node(stack: str, kubectl: Kubectl, cluster: Cluster) -> Iterator[Callable[[], str]]:
    """Return a function that creates a node of this test, which kwok calls ready."""
    if not cluster.registry:
        pytest.skip("this cluster has no nodes that do not exist")
    name = f"kwok-{stack}"

    def make() -> str:
        labels = {"type": "kwok", "test": stack}
        metadata = {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
        taint = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": [taint]}}
        room = {"cpu": "8", "memory": "8Gi", "pods": "10"}
        kubectl("apply", "-f", "-", stdin=json.dumps(body))
        status = json.dumps({**body, "status": {"allocatable": room, "capacity": room}})
        kubectl(
            "apply", "--server-side", "--force-conflicts", "--subresource=status", "-f", "-", stdin=status
        )
        return name

    yield make
    kubectl("delete", "node", name, "--ignore-not-found")


@pytest.mark.slow  # The cluster waits for 40 s before it takes away the pods of a node that is gone.
def test_up_recreates_the_pods_of_a_lost_node(
    sandbox: Sandbox, stack: str, node: Callable[[], str], kubectl: Kubectl, live: Live
) -> None:
    program = """
with Experiment("e") as e:
    e.new_process("a", command="sleep", args=["999"])
    p = e.new_process("b", command="sleep", args=["999"])
    p.node_selector("test", STACK)
    p.add_toleration(key="kwok.x-k8s.io/node", operator="Exists")
""".replace("STACK", repr(stack))
    name = node()
    up(sandbox, stack, program, code=0)
    before = uids(live, stack)
    kubectl("delete", "node", name)
    becomes(sandbox, stack, "b", "lost", seconds=150)
    node()
    up(sandbox, stack, program, code=0)
    becomes(sandbox, stack, "b", "running")
    assert uids(live, stack)["a"] == before["a"]


@pytest.mark.thorough
def test_up_updates_the_secret_file_in_a_running_pod(
    sandbox: Sandbox, stack: str, tmp_path: Path, live: Live
) -> None:
    """The pod is not replaced; the process must reread the file."""
    key = tmp_path / "key.txt"
    program = f"""
with Experiment("e", secrets=[{str(key)!r}]) as e:
    read = 'while :; do read line < $SYMPH_SECRETS_DIR/key.txt; echo "is $line"; sleep 1; done'
    e.new_process("a", command="sh", args=["-c", read])
"""
    key.write_text("first\n")
    up(sandbox, stack, program, code=0)
    before = uids(live, stack)
    key.write_text("second\n")
    up(sandbox, stack, program, code=0)
    wait_for(lambda: "is second" in sandbox.symphony("logs", stack, "-t", "3").out, 100, "the file", pause=1)
    assert uids(live, stack) == before


@pytest.mark.thorough
def test_status_names_the_image_that_the_registry_refuses_without_login(
    sandbox: Sandbox, stack: str, own: Cluster
) -> None:
    with _locked_registry() as registry:
        image = f"{registry}/private/thing:1"
        program = f'with Experiment("e") as e: e.new_process("a", command="true", image={image!r})'
        up(sandbox, stack, program, code=1)
        why = becomes(sandbox, stack, "a", "waiting", "401 Unauthorized")["why"]
    assert image in why


@contextlib.contextmanager
def _locked_registry() -> Iterator[str]:
    """Run a registry on this machine that refuses every request with 401."""

    class Locked(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="test"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Locked) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"localhost:{server.server_address[1]}"
        server.shutdown()
