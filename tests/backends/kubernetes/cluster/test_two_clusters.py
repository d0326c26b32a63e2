"""The context was switched, or now means another cluster: nothing changes in the wrong cluster."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.sandbox import Sandbox
from toolchain.kubernetes.fixtures import Access as Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.thorough, pytest.mark.timeout(300)]
PROGRAM = 'with Experiment("e") as e: e.new_process("a", command="sleep", args=["1000"])'


class Other(http.server.BaseHTTPRequestHandler):
    """Another cluster, with another kube-system and no objects, which records requests for changes."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.endswith("/namespaces/kube-system"):
            self._answer(200, {"kind": "Namespace", "metadata": {"name": "kube-system", "uid": "another"}})
        elif path.endswith(("/pods", "/services", "/configmaps", "/secrets", "/jobs", "/events")):
            self._answer(200, {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []})
        else:
            self._answer(404, {"reason": "NotFound", "message": "nothing"})

    def do_DELETE(self) -> None:
        changes: list[str] = self.server.changes  # type: ignore[attr-defined]
        changes.append(f"{self.command} {self.path}")
        self._answer(200, {})

    do_POST = do_PATCH = do_PUT = do_DELETE

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def other() -> Iterator[http.server.ThreadingHTTPServer]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other)
    server.changes = []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def kubeconfig(
    sandbox: Sandbox, stack: str, cluster: Cluster, other: http.server.ThreadingHTTPServer, tmp_path: Path
) -> Callable[[str, str], None]:
    """Write the kubeconfig of the stack: the cluster behind context `mine`, and the current context."""
    ours = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    context = next(each for each in ours["contexts"] if each["name"] == ours["current-context"])["context"]
    address = f"http://127.0.0.1:{other.server_address[1]}"
    file = tmp_path / "kubeconfig"

    def write(mine: str, current: str) -> None:
        clusters = [*ours["clusters"], {"name": "other", "cluster": {"server": address}}]
        of_mine = context if mine == "ours" else {"cluster": "other"}
        contexts = [{"name": "mine", "context": of_mine}, {"name": "other", "context": {"cluster": "other"}}]
        whole = {**ours, "clusters": clusters, "contexts": contexts, "current-context": current}
        file.write_text(yaml.safe_dump(whole))

    write("ours", "mine")
    sandbox.config(stack, **{"kubernetes:kubeconfig": str(file)})
    sandbox.write(PROGRAM)
    return write


def test_commands_refuse_another_cluster_and_use_the_recorded_one(
    sandbox: Sandbox, stack: str, kubeconfig: Callable[[str, str], None], live: Any, other: Any
) -> None:
    sandbox.symphony("up", stack, "-y")
    before = [each["metadata"]["uid"] for each in live("pods", stack)]
    # The context now means another cluster.
    kubeconfig("other", "mine")
    for words in (("plan", stack), ("up", stack, "-y"), ("process", stack), ("delete", stack, "-y")):
        output = sandbox.symphony(*words, code=2).err
        assert "context mine now means another cluster" in output, words
    listed = {each["name"]: each for each in sandbox.symphony("ls", "--json", code=1).json}
    assert listed[stack]["state"] == "unknown", listed
    assert other.changes == []
    assert [each["metadata"]["uid"] for each in live("pods", stack)] == before
    # The current context is another one: `up` refuses, and other commands use the experiment's own cluster.
    kubeconfig("ours", "other")
    for words in (("plan", stack), ("up", stack, "-y")):
        output = sandbox.symphony(*words, code=2).err
        assert f"{stack} runs in the cluster of context mine, but your current context is other" in output
        assert "kubernetes:context: mine" in output
    assert sandbox.processes(stack)["a"]["state"] == "running"
    sandbox.symphony("delete", stack, "-y")
    assert live("pods", stack) == []
    assert other.changes == []
