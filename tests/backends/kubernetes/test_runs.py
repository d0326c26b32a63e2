"""Experiments on the real cluster: followed logs, secrets, and namespaces of other owners."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from symphony.backends.kubernetes import observe
from symphony.backends.observe import Recorded
from tests.sandbox import Sandbox, wait_for
from toolchain.kubernetes.fixtures import Access as Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]
Live = Callable[[str, str], list[dict[str, Any]]]

PAIR = """
with Experiment("e") as e:
    e.new_process("server", command="sh", args=["-c", "env; sleep 1000"]).binds("alpha")
    group = e.new_process_group("pool")
    for i in range(2):
        group.new_process(f"w{i}", command="sleep", args=["1000"]).connects("alpha")
"""


def up(sandbox: Sandbox, stack: str, program: str, code: int | None = None) -> str:
    sandbox.write(program)
    ran = sandbox.symphony("up", stack, "-y", code=code, timeout=120)
    return ran.out + ran.err


def becomes(
    sandbox: Sandbox, stack: str, path: str, state: str, words: str = "", seconds: float = 60
) -> dict[str, Any]:
    def there() -> Any:
        result = sandbox.processes(stack).get(path, {})
        return result if result.get("state") == state and words in result["why"] else None

    return wait_for(there, seconds, f"{path} is {state} {words}", pause=0.5)


def uids(live: Live, namespace: str) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in live("pods", namespace)}


def test_logs_are_followed_across_restarts(sandbox: Sandbox, stack: str, cluster: Cluster) -> None:
    up(
        sandbox,
        stack,
        """
with Experiment("e") as e:
    p = e.new_process("p", command="sh", args=["-c", "echo begin; sleep 1; echo middle; sleep 1; exit 5"])
    p.restart_policy("Always")
    e.new_process("q", command="sh", args=["-c", "for i in 1 2 3; do echo q$i; sleep 1; done"])
""",
    )
    recorded = Recorded(
        "",
        stack,
        {name: {"pod_name": name, "container_name": name} for name in "pq"},
        connection={"kubeconfig": cluster.kubeconfig},
    )
    # It runs for two seconds, and waits ever longer between its starts.
    wait_for(lambda: "begin" in [line.text for line in observe.logs(recorded, ["p"])], 60, "p has begun")
    lines: list[tuple[str, str]] = []
    for line in observe.logs(recorded, ["p", "q"], follow=True):
        lines.append((line.path, line.text))
        if [path for path, text in lines if text == "begin"] == ["p", "p"]:
            break
    of_p = [text for path, text in lines if path == "p"]
    assert of_p[:4] == ["begin", "middle", "ended: exit 5", "begin"]
    assert [text for path, text in lines if path == "q"][:3] == ["q1", "q2", "q3"]
    assert [each.text for each in observe.logs(recorded, ["q"], tail=1) if not each.ended] == ["q3"]


def test_a_non_root_process_reads_its_secret_and_no_file_of_symphony_has_it(
    sandbox: Sandbox, stack: str, cluster: Cluster, tmp_path: Path
) -> None:
    """It reads the file through its group, at the restricted level."""
    (tmp_path / "key.txt").write_text("hush-hush-7")
    sandbox.config(stack, podSecurity="restricted")
    script = "id -u; cat $SYMPH_SECRETS_DIR/*; echo; ls -lL /etc/secrets"
    up(
        sandbox,
        stack,
        f"""
with Experiment("e", secrets=["{tmp_path / "key.txt"}"]) as e:
    p = e.new_process("a", command="sh", args=["-c", "{script}"])
    p.container_yml["securityContext"] = {{"runAsUser": 65534}}
""",
    )
    becomes(sandbox, stack, "a", "completed")
    output = sandbox.symphony("logs", stack, "a").out
    assert output.splitlines()[:2] == ["65534", "hush-hush-7"]
    assert "r--r-----" in output
    user = yaml.safe_load(Path(cluster.kubeconfig).read_text())["users"][0]["user"]
    credentials = (
        user.get("client-key-data")
        or user.get("token")
        or Path(user["client-key"]).read_text().splitlines()[1]
    )
    for file in sandbox.home.rglob("*.json*"):
        assert credentials[:60] not in file.read_text(errors="replace"), file
    # The process printed the secret, so its kept log has it.
    sandbox.symphony("delete", stack, "-y", "--forget", timeout=120)
    for file in sandbox.home.rglob("*"):
        assert not file.is_file() or b"hush" not in file.read_bytes(), file
        assert not file.is_file() or b"aHVzaC1odXNoLTc" not in file.read_bytes(), file


def test_up_and_delete_leave_a_foreign_namespace_untouched(
    sandbox: Sandbox, stack: str, live: Live, kubectl: Callable[..., str], cluster: Cluster
) -> None:
    kubectl("create", "namespace", stack)
    output = up(sandbox, stack, 'with Experiment("e") as e: e.new_process("a", command="true")', code=2)
    assert "already exists, and symphony did not create it" in output
    assert live("pods", stack) == []
    recorded = Recorded("", stack, {}, connection={"kubeconfig": cluster.kubeconfig})
    assert observe.delete_orphans("kube/x#1", stack, recorded) == 0
    assert kubectl("get", "namespace", stack, "-o", "jsonpath={.status.phase}") == "Active"


def test_an_ordinary_user_runs_in_a_namespace_created_by_an_administrator(
    sandbox: Sandbox, stack: str, cluster: Cluster, live: Live, kubectl: Callable[..., str]
) -> None:
    """Objects of other users with the same names stay untouched."""
    if not cluster.user_kubeconfig:
        pytest.skip("this cluster has no ordinary user of ours")
    sandbox.config(
        stack,
        namespace="ordinary",
        createNamespace="false",
        **{"kubernetes:kubeconfig": cluster.user_kubeconfig},
    )
    up(sandbox, stack, PAIR)
    alpha = f"{stack}-alpha"
    try:
        becomes(sandbox, stack, "pool/w0", "running")
        kubectl("-n", "ordinary", "delete", "service", alpha)
        kubectl("-n", "ordinary", "create", "service", "clusterip", alpha, "--tcp=1")
        refused = sandbox.symphony("delete", stack, "-y", code=2).err
        assert f"the service {alpha} in namespace ordinary does not belong to {stack}" in refused
        assert len(refused.splitlines()) == 1
        assert len(live("pods", "ordinary")) == 2
    finally:
        kubectl("-n", "ordinary", "delete", "service", alpha, "--ignore-not-found")
        sandbox.symphony("delete", stack, "-y", timeout=120)
    assert [each["metadata"]["name"] for each in live("services", "ordinary")] == []
    assert live("pods", "ordinary") == []
