"""Two experiments of one program in one namespace, run by a user whose Role covers only that namespace."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.backends.kubernetes.conftest import configured
from tests.backends.kubernetes.diagnosis.test_why import steps
from tests.sandbox import SYMPHONY, Sandbox, wait_for
from toolchain.kubernetes import access
from toolchain.kubernetes.fixtures import Access as Cluster
from toolchain.kubernetes.layout import Layout

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]
SERVE = "cat $SYMPH_SECRETS_DIR/key > /tmp/index.html; exec httpd -f -h /tmp -p $SYMPH_BOARD_PORT"
ASK = "until wget -qO- http://$SYMPH_BOARD_ADDR/ 2>/dev/null; do sleep 0.2; done; sleep 999"
PROGRAM = f"""
import pulumi
with Experiment("e", secrets=["FOLDER/" + pulumi.get_stack() + "/key"]) as e:
    e.new_process("server", command="sh", args=["-c", {SERVE!r}]).exposes("board")
    e.new_process_group("pool").new_process("client", command="sh", args=["-c", {ASK!r}]).connects("board")
"""
KINDS = "pods,jobs,services,configmaps,secrets"


@pytest.fixture
def pair(
    own: Cluster, sandbox: Sandbox, kubectl: Callable[..., str], tmp_path: Path
) -> Iterator[tuple[str, str, str]]:
    """Two stacks, one of pods and one of Jobs, and the namespace that was made for them."""
    with configured(sandbox, own, kubectl) as first, configured(sandbox, own, kubectl) as second:
        place = f"{first}-shared"
        kubectl("create", "namespace", place)
        kubectl("-n", place, "wait", "--for=create", "serviceaccount/default", "--timeout=30s")
        access.grant(Layout.default(), access.ORDINARY, place)
        mine = {"createNamespace": "false", "kubernetes:kubeconfig": own.user_kubeconfig}
        for name, controller in ((first, "Pod"), (second, "Job")):
            sandbox.config(name, namespace=place, controller=controller, **mine)
            (tmp_path / name).mkdir()
            (tmp_path / name / "key").write_text(f"of {name}\n")
        sandbox.write(PROGRAM.replace("FOLDER", str(tmp_path)))
        yield first, second, place
        kubectl("delete", "namespace", place, "--ignore-not-found", "--wait=false")


def test_two_stacks_of_one_program_share_a_namespace_and_are_deleted_separately(
    sandbox: Sandbox, pair: tuple[str, str, str], kubectl: Callable[..., str]
) -> None:
    first, second, place = pair
    for name in (first, second):
        sandbox.symphony("up", name, "-y", timeout=120)
    for name in (first, second):
        assert _output(sandbox, name, "pool/client") == f"of {name}", "each reached the server of its own"
        assert f"of {name}" in _visited(sandbox, name)
        assert sandbox.symphony("exec", name, "server", "--", "cat", "/etc/secrets/key").out == f"of {name}\n"
        assert list(steps(sandbox, name, "server"))[-1] == "exposed"
        assert "Nothing changes" in sandbox.symphony("plan", name).out
    listed = {each["name"]: each["ready"] for each in sandbox.symphony("ls", "--json").json}
    assert listed == {first: 2, second: 2}

    before = _owned(kubectl, place, second)
    program = (sandbox.folder / "__main__.py").read_text()
    sandbox.write(program.replace('"server",', '"server", env={"NEW": "1"},'))
    sandbox.symphony("up", first, "-y", timeout=120)
    assert sandbox.symphony("exec", first, "server", "--", "sh", "-c", "echo $NEW").out == "1\n"
    kubectl("-n", place, "delete", "pod", f"{first}-server", "--now")
    assert sandbox.processes(first)["server"]["state"] == "lost"
    sandbox.symphony("delete", first, "-y", timeout=120)
    assert _owned(kubectl, place, first) == []
    assert _owned(kubectl, place, second) == before
    assert {each["state"] for each in sandbox.processes(second).values()} == {"running"}
    assert f"of {second}" in _visited(sandbox, second)
    sandbox.symphony("delete", second, "-y", timeout=120)
    assert kubectl("-n", place, "get", KINDS, "-l", "symphony/experiment", "-o", "name") == ""


def _output(sandbox: Sandbox, stack: str, path: str) -> str:
    def lines() -> list[str]:
        return sandbox.symphony("logs", stack, path, "--json").out.splitlines()

    return json.loads(wait_for(lines, 30, f"{path} of {stack} says something", pause=0.5)[0])["text"]


def _visited(sandbox: Sandbox, stack: str) -> str:
    """Return the answer of the only exposed service of an experiment."""
    visiting = sandbox.start([str(SYMPHONY), "visit", stack, "-u"])
    assert visiting.stdout is not None
    address = visiting.stdout.readline().strip()
    with urllib.request.urlopen(address, timeout=20) as answer:
        result = answer.read().decode()
    visiting.send_signal(signal.SIGINT)
    visiting.communicate(timeout=15)
    return result


def _owned(kubectl: Callable[..., str], place: str, stack: str) -> list[str]:
    """Return the uids of all objects of an experiment in the namespace."""
    uids = "jsonpath={.items[*].metadata.uid}"
    return sorted(
        kubectl("-n", place, "get", KINDS, "-l", f"symphony/experiment={stack}", "-o", uids).split()
    )
