"""stacks/surreal.py on a simulated cluster of GKE; its pod types place agents and the other roles."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable

import pytest
import yaml

from symphony.placement.pool import POOL_LABEL
from tests.gke.conftest import Google
from tests.gke.test_cluster_and_experiment import CLUSTER
from tests.sandbox import ROOT, Sandbox
from toolchain.kubernetes.fixtures import Access

pytestmark = [pytest.mark.kubernetes, pytest.mark.thorough, pytest.mark.timeout(300)]


@pytest.mark.slow
def test_surreal_pod_types_place_agents_and_learner_on_their_pools(
    sandbox: Sandbox, google: Google, cluster: Access, kubectl: Callable[..., str]
) -> None:
    """The scheduler puts agents and the evaluator by twos on CPU machines, the others on a GPU machine."""
    program = CLUSTER.replace("OWN_NETWORK", "False").replace("NAME", google.name).replace("MACHINES", "2")
    (sandbox.folder / "stacks" / "gke.py").write_text(program)
    shutil.copy(ROOT / "stacks" / "surreal.py", sandbox.folder / "stacks")
    (sandbox.folder / "examples" / "surreal").mkdir(parents=True)
    sandbox.config("gke", **{"gcp:project": "my-project"})
    sandbox.symphony("up", "gke", "-y", timeout=120)
    cpu, gpu = f"{google.name}-cpu", f"{google.name}-gpu"
    config = {
        "symphony:backend": "kubernetes",
        "symphony:cluster": "gke",
        "symphony:namespace": f"on-{google.name}",
        "surreal:agents": 3,
        "surreal:evals": 1,
        "surreal:podTypes": {
            "agent": {"image": "none:1", "place": {"pool": cpu, "per_machine": 2}},
            "nonagent": {"image": "none:1", "place": {"pool": gpu}, "resource_limit": {"gpu": 1}},
        },
    }
    (sandbox.folder / "Pulumi.surreal.yaml").write_text(yaml.safe_dump({"config": config}))
    sandbox.symphony("up", "surreal", "-y", timeout=120)
    assert {each["state"] for each in sandbox.processes("surreal").values()} == {"running"}
    pods = json.loads(kubectl("-n", f"on-{google.name}", "get", "pods", "-o", "json"))["items"]
    nodes = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
    pools = {each["metadata"]["name"]: each["metadata"]["labels"].get(POOL_LABEL) for each in nodes}
    chosen = {each["metadata"]["name"]: each["spec"]["nodeName"] for each in pods}
    roles = Counter(pools[chosen[name]] for name in chosen if name != "nonagent")
    assert roles == {cpu: 4}, "three agents and an evaluator"
    assert max(Counter(chosen.values()).values()) == 2
    assert pools[chosen["nonagent"]] == gpu
    sandbox.symphony("delete", "surreal", "-y", timeout=120)
    sandbox.symphony("delete", "gke", "-y", timeout=120)
    assert google.nodes() == []
