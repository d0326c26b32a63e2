"""The context was switched, or now means another cluster: nothing changes in the wrong cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.backends.kubernetes.cluster.scripted_cluster import Cluster as ScriptedCluster
from tests.backends.kubernetes.scripted_api import Api, namespace, serving
from tests.sandbox import Sandbox
from toolchain.kubernetes.fixtures import Access as Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.thorough, pytest.mark.timeout(300)]
PROGRAM = 'with Experiment("e") as e: e.new_process("a", command="sleep", args=["1000"])'


@pytest.fixture
def other() -> Iterator[Api]:
    """Another cluster, with another kube-system and no objects."""
    empty = ScriptedCluster()
    empty.system = namespace("kube-system", "another")
    with serving(empty) as api:
        yield api


@pytest.fixture
def kubeconfig(
    sandbox: Sandbox, stack: str, cluster: Cluster, other: Api, tmp_path: Path
) -> Callable[[str, str], None]:
    """Write the kubeconfig of the stack: the cluster behind context `mine`, and the current context."""
    ours = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    context = next(each for each in ours["contexts"] if each["name"] == ours["current-context"])["context"]
    file = tmp_path / "kubeconfig"

    def write(mine: str, current: str) -> None:
        clusters = [*ours["clusters"], {"name": "other", "cluster": {"server": other.url}}]
        of_mine = context if mine == "ours" else {"cluster": "other"}
        contexts = [{"name": "mine", "context": of_mine}, {"name": "other", "context": {"cluster": "other"}}]
        whole = {**ours, "clusters": clusters, "contexts": contexts, "current-context": current}
        file.write_text(yaml.safe_dump(whole))

    write("ours", "mine")
    sandbox.config(stack, **{"kubernetes:kubeconfig": str(file)})
    sandbox.write(PROGRAM)
    return write


def test_commands_refuse_another_cluster_and_use_the_recorded_one(
    sandbox: Sandbox, stack: str, kubeconfig: Callable[[str, str], None], live: Any, other: Api
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
    assert {each.verb for each in other.asked} == {"GET"}
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
    assert {each.verb for each in other.asked} == {"GET"}
