"""Classic programs as Kubernetes manifests: the calls of their processes, their names."""

from __future__ import annotations

from typing import Any

from symphony import Cluster
from tests.backends.kubernetes.manifests.test_render import manifests
from tests.documents import blocks


def containers(experiment: Any) -> dict[str, dict[str, Any]]:
    pods = manifests(experiment).pods.values()
    return {each["name"]: each for _, pod in pods for each in pod["spec"]["containers"]}


def test_classic_pod_settings_in_manifests() -> None:
    exp = Cluster.new("kube").new_experiment("rl")
    options: dict[str, Any] = {"container_image": "tensorboard", "standalone": True}
    tb = exp.new_process("tb", **options)
    tb.set_command("tensorboard --port 6006")
    tb.set_args(["--logdir", "/fs", 1])
    tb.add_toleration(key="surreal", operator="Exists", effect="NoExecute", tolerationSeconds=60)
    tb.pod_yml.data["spec"]["nodeName"] = "m1"
    tb.pod_yml.set_attr({"spec": {"hostname": "tb"}})
    tb.container_yml.set_env("A", 1)
    tb.container_yml.set_attr({"tty": True})
    (_, pod), *_ = manifests(exp).pods.values()
    spec = pod["spec"]
    taint = {"key": "surreal", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
    assert (spec["nodeName"], spec["hostname"], spec["tolerations"]) == ("m1", "tb", [taint])
    container = spec["containers"][0]
    assert container["command"] == ["tensorboard", "--port", "6006"]
    assert container["args"] == ["--logdir", "/fs", "1"]
    assert container["tty"] is True
    assert {each["name"]: each["value"] for each in container["env"]} == {
        "SYMPHONY_ROLE": "tb",
        "PYTHONUNBUFFERED": "1",
        "A": "1",
    }


def test_reading_pod_yml_of_a_classic_process_does_not_change_it() -> None:
    exp = Cluster.new("kube").new_experiment("rl")
    process = exp.new_process("a", container_image="i")
    assert (process.pod_yml["spec"]["dnsPolicy"], process.container_yml["securityContext"]["user"]) == (
        {},
        {},
    )
    (_, pod), *_ = manifests(exp).pods.values()
    assert "dnsPolicy" not in pod["spec"]
    assert "user" not in (pod["spec"]["containers"][0].get("securityContext") or {})


def test_names_invalid_on_kubernetes_are_mapped() -> None:
    exp = Cluster.new("kube").new_experiment("My_Exp")
    exp.new_process("agent_0", container_image="i").binds("Replay_Server")
    exp.new_process_group("Non_Agent").new_process("Joy", container_image="i").connects("Replay_Server")
    result = manifests(exp)
    assert list(result.pods) == ["agent-0", "non-agent"]
    assert list(result.services) == ["replay-server"]
    named = containers(exp)
    assert list(named) == ["agent-0", "joy"]
    env = {each["name"]: each["value"] for each in named["joy"]["env"]}
    assert env["SYMPH_REPLAY_SERVER_HOST"].startswith("replay-server.")
    assert env["SYMPHONY_ROLE"] == "joy"


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
