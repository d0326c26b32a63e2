"""Overrides of classic pods, and the program of the migration guide, as Kubernetes manifests."""

from __future__ import annotations

from typing import Any

from symphony import Cluster
from tests.backends.kubernetes.manifests.test_render import manifests
from tests.documents import blocks


def test_overrides_of_a_classic_pod_are_written_and_reading_one_changes_nothing() -> None:
    exp = Cluster.new("kube").new_experiment("rl")
    process = exp.new_process("a", container_image="i")
    assert (process.pod_yml["spec"]["dnsPolicy"], process.container_yml["securityContext"]["user"]) == (
        {},
        {},
    )
    process.pod_yml.data["spec"]["nodeName"] = "m1"
    process.container_yml.set_attr({"tty": True})
    (_, pod), *_ = manifests(exp).pods.values()
    container = pod["spec"]["containers"][0]
    assert (pod["spec"]["nodeName"], container["tty"]) == ("m1", True)
    assert "dnsPolicy" not in pod["spec"]
    assert "user" not in (container.get("securityContext") or {})


def test_the_migration_docs_restore_the_original_behavior() -> None:
    (program,) = blocks("docs/migration.md", "python")
    names: dict[str, Any] = {}
    exec(program.replace("cluster.launch(exp)", ""), names)
    settings = names["cluster"].settings
    assert settings == {
        "symphony:backend": "kubernetes",
        "symphony:expose": "LoadBalancer",
        "symphony:sourceRanges": "0.0.0.0/0",
    }
    result = manifests(names["exp"], expose="LoadBalancer", source_ranges=("0.0.0.0/0",))
    (_, pod), *_ = result.pods.values()
    assert pod["spec"]["restartPolicy"] == "Always"
    assert result.services["parameters"]["spec"]["ports"][0]["port"] == 7000
    assert result.services["tensorboard"]["spec"]["type"] == "LoadBalancer"
