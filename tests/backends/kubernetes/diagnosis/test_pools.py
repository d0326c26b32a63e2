"""`symphony why` of an unschedulable pod: its node pool, and the resources that are missing there."""

from __future__ import annotations

from typing import Any

import pytest

from symphony.backends.kubernetes import nodes as cluster_nodes
from symphony.backends.kubernetes import why
from symphony.backends.kubernetes.manifests.labels import POOL, POOL_MAX
from symphony.placement.pool import POOL_LABEL
from tests.backends.kubernetes.scripted_api import serving

Body = dict[str, Any]


def node(name: str, pool: str = "gpu", taint: str = "") -> Body:
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    return {
        "metadata": {"name": name, "labels": {POOL_LABEL: pool}},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": "8", "memory": "30Gi"}},
    }


def pod(cpu: str = "5", most: str = "2", node_name: str = "", memory: str = "0") -> Body:
    return {
        "metadata": {"name": "a", "annotations": {POOL: "gpu", POOL_MAX: most}},
        "spec": {
            "nodeSelector": {POOL_LABEL: "gpu"},
            "nodeName": node_name,
            "containers": [
                {"name": "a", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
            ],
        },
        "status": {"phase": "Pending"},
    }


@pytest.mark.parametrize(
    ("nodes", "taken", "words"),
    [
        ([], [], "Pool gpu has no node now: wait for a new one, or raise the pool's min"),
        ([node("a")], ["a"], "It would fit with 1 more node of pool gpu, or cpu <= 3"),
        (
            [node("a"), node("b")],
            ["a", "b"],
            "It would fit with 1 more node of pool gpu, whose max of 2 is reached, or cpu <= 3",
        ),
        (
            [node("a", taint="x")],
            [],
            'It would fit with add_toleration(key="x", effect="NoSchedule")',
        ),
        (
            [node("a", taint="node.kubernetes.io/disk-pressure"), node("b", taint="x")],
            [],
            'It would fit with add_toleration(key="x", effect="NoSchedule")',
        ),
        (
            [node("a", taint="node.kubernetes.io/unschedulable")],
            [],
            "Wait until node a has no taint node.kubernetes.io/unschedulable, or add a node like it",
        ),
    ],
    ids=["empty", "full", "max", "taint", "a temporary taint and another", "temporary taint"],
)
def test_why_says_what_a_pool_lacks_for_the_pod(nodes: list[Body], taken: list[str], words: str):
    nodes = [*nodes, node("other", pool="cpu")]
    assert cluster_nodes.remedy_of(pod(), nodes, [pod(node_name=each) for each in taken]) == words


def test_why_combines_reductions_that_only_help_together():
    """It names the machine that lacks the least."""
    taken = [pod(node_name="a", memory="20Gi"), pod("7", node_name="b", memory="20Gi")]
    result = cluster_nodes.remedy_of(pod(memory="12Gi"), [node("a"), node("b")], taken)
    assert result == (
        "It would fit with 1 more node of pool gpu, whose max of 2 is reached, or cpu <= 3 and memory <= 10Gi"
    )


def test_a_pool_has_the_labels_that_all_its_nodes_share() -> None:
    nodes = [node("a"), node("b")]
    for each, zone in zip(nodes, ("z-1", "z-2"), strict=True):
        each["metadata"]["labels"] |= {"topology.kubernetes.io/zone": zone, "team": "rl"}
    with serving(lambda asked: (200, {"items": nodes if asked.path.endswith("/nodes") else []})) as api:
        (pool,) = cluster_nodes.read_pools(api.client())
    assert (pool.labels, pool.zones) == ({POOL_LABEL: "gpu", "team": "rl"}, ("z-1", "z-2"))


@pytest.mark.parametrize(
    ("reason", "message", "remedy"),
    [
        (
            "FailedScaleUp",
            "GCE quota exceeded",
            "Request a higher quota for the region; r",
        ),
        ("NotTriggerScaleUp", "1 max node group size reached", "Raise max of the pool; r"),
        ("TriggeredScaleUp", "1->2 (max: 4)", "r"),
    ],
)
def test_why_quotes_the_event_of_the_autoscaler_with_a_remedy(reason: str, message: str, remedy: str):
    event = {"reason": reason, "message": message}
    recorded = {"container_name": "a", "image": "i", "pod": {"nodeSelector": {POOL_LABEL: "gpu"}}}
    facts = why.Facts("a", recorded, pod(), [event], [], lambda *_: (), lambda: "r")
    planned, _, scheduled = why.chain(facts, "rl")
    assert planned.what == "i, pool gpu"
    assert scheduled.more == (f"{reason}: {message}",)
    assert scheduled.remedy == remedy
