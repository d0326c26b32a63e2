"""Experiments on the real cluster: what a person sees of each trouble, and what must never happen."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from symphony.backends.kubernetes import observe
from symphony.backends.kubernetes.api.client import Unreachable, client_of, path_of
from symphony.backends.observe import Recorded
from symphony.errors import SymphonyError
from tests.backends.kubernetes.scripted_api import client_to
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


@pytest.mark.thorough
def test_edits_touch_only_what_they_are_about(sandbox: Sandbox, stack: str, live: Live) -> None:
    """What an edit adds is there, what it changes starts again, what it takes out goes; all else stays."""
    up(sandbox, stack, PAIR, code=0)
    before = uids(live, stack)
    assert set(before) == {"server", "pool"}

    edited = PAIR.replace('args=["1000"]).connects', 'args=["1001"]).connects')
    more = edited + '    e.new_process("other", command="sh", args=["-c", "env; sleep 99"]).binds("beta")\n'
    up(sandbox, stack, more, code=0)
    after = uids(live, stack)
    assert set(after) == {"server", "pool", "other"}
    assert [name for name in before if before[name] != after[name]] == ["pool"]
    output = sandbox.symphony("logs", stack, "other").out
    assert f"SYMPH_ALPHA_HOST=alpha.{stack}.svc" in output  # not used by it, yet there

    up(sandbox, stack, edited, code=0)
    del after["other"]
    wait_for(lambda: uids(live, stack) == after, 20, "only other is gone")


@pytest.mark.thorough
def test_a_pod_that_is_lost_comes_back_and_alone(
    sandbox: Sandbox, stack: str, live: Live, kubectl: Callable[..., str]
) -> None:
    up(sandbox, stack, PAIR)
    becomes(sandbox, stack, "pool/w1", "running")
    before = uids(live, stack)
    kubectl("-n", stack, "delete", "pod", "pool", "--now")
    assert becomes(sandbox, stack, "pool/w0", "lost")["why"] == "its pod is gone"
    up(sandbox, stack, PAIR)
    becomes(sandbox, stack, "pool/w0", "running")
    after = uids(live, stack)
    assert after["server"] == before["server"]
    assert after["pool"] != before["pool"]


def test_watching_ends_and_says_why(sandbox: Sandbox, stack: str, cluster: Cluster) -> None:
    up(
        sandbox,
        stack,
        """
with Experiment("e") as e:
    e.new_process("fine", command="sleep", args=["99"])
    e.new_process("nowhere", command="true").node_selector("no", "such")
""",
    )
    recorded = Recorded(
        "",
        stack,
        {name: {"pod_name": name, "container_name": name} for name in ("fine", "nowhere")},
        connection={"kubeconfig": cluster.kubeconfig},
    )
    began = time.monotonic()
    last = list(observe.watch(recorded, patience=4))[-1]
    assert time.monotonic() - began < 40
    assert {each.path: each.state for each in last} == {"fine": "running", "nowhere": "waiting"}
    del recorded.processes["nowhere"]  # pyright: ignore[reportIndexIssue]
    began = time.monotonic()
    assert [each.ready for each in list(observe.watch(recorded))[-1]] == [True]
    assert time.monotonic() - began < 30, "the patience is 60 s"


def test_logs_are_followed_over_restarts(sandbox: Sandbox, stack: str, cluster: Cluster) -> None:
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
    becomes(sandbox, stack, "p", "running")
    lines: list[tuple[str, str]] = []
    for line in observe.logs(recorded, ["p", "q"], follow=True):
        lines.append((line.path, line.text))
        if [path for path, text in lines if text == "begin"] == ["p", "p"]:
            break
    of_p = [text for path, text in lines if path == "p"]
    assert of_p[:4] == ["begin", "middle", "ended: exit 5", "begin"]
    assert [text for path, text in lines if path == "q"][:3] == ["q1", "q2", "q3"]
    assert [each.text for each in observe.logs(recorded, ["q"], tail=1) if not each.ended] == ["q3"]


def test_a_secret_is_in_the_process_and_nowhere_else(sandbox: Sandbox, stack: str, tmp_path: Path) -> None:
    (tmp_path / "key.txt").write_text("hush-hush-7")
    up(
        sandbox,
        stack,
        f"""
with Experiment("e", secrets=["{tmp_path / "key.txt"}"]) as e:
    e.new_process("a", command="sh", args=["-c", "cat $SYMPH_SECRETS_DIR/key.txt; ls -lL /etc/secrets"])
""",
    )
    becomes(sandbox, stack, "a", "completed")
    output = sandbox.symphony("logs", stack).out
    assert "hush-hush-7" in output
    assert "r--r-----" in output
    sandbox.symphony("delete", stack, "-y", timeout=120)
    for file in sandbox.home.rglob("*"):
        assert not file.is_file() or b"hush" not in file.read_bytes(), file
        assert not file.is_file() or b"aHVzaC1odXNoLTc" not in file.read_bytes(), file


def test_a_secret_can_be_read_at_the_restricted_level(sandbox: Sandbox, stack: str, tmp_path: Path) -> None:
    """By a process that is not root and, without its group, could not."""
    (tmp_path / "key.txt").write_text("hush-hush-7")
    sandbox.config(stack, podSecurity="restricted")
    output = up(
        sandbox,
        stack,
        f"""
with Experiment("e", secrets=["{tmp_path / "key.txt"}"]) as e:
    p = e.new_process("a", command="sh", args=["-c", "id -u; cat $SYMPH_SECRETS_DIR/*; echo; sleep 999"])
    p.container_yml["securityContext"] = {{"runAsUser": 65534}}
""",
        code=0,
    )
    assert "1 of 1" in output, output

    def printed() -> list[str]:
        return [line.split()[-1] for line in sandbox.symphony("logs", stack, "a").out.splitlines()]

    wait_for(lambda: len(printed()) == 2, 20, "it has read", pause=0.5)
    assert printed() == ["65534", "hush-hush-7"]


def test_no_key_of_the_kubeconfig_is_in_the_state(sandbox: Sandbox, stack: str, cluster: Cluster) -> None:
    user = yaml.safe_load(Path(cluster.kubeconfig).read_text())["users"][0]["user"]
    up(sandbox, stack, 'with Experiment("e") as e: e.new_process("a", command="true")')
    secret = (
        user.get("client-key-data")
        or user.get("token")
        or Path(user["client-key"]).read_text().splitlines()[1]
    )
    for file in sandbox.home.rglob("*.json*"):
        assert secret[:60] not in file.read_text(errors="replace"), file


def test_a_namespace_that_is_not_ours_is_left_alone(
    sandbox: Sandbox, stack: str, live: Live, kubectl: Callable[..., str], cluster: Cluster
) -> None:
    kubectl("create", "namespace", stack)
    output = up(sandbox, stack, 'with Experiment("e") as e: e.new_process("a", command="true")', code=2)
    assert "exists already, and symphony did not make it" in output
    assert live("pods", stack) == []
    recorded = Recorded("", stack, {}, connection={"kubeconfig": cluster.kubeconfig})
    assert observe.delete_orphans("kube/x#1", stack, recorded) == 0
    assert kubectl("get", "namespace", stack, "-o", "jsonpath={.status.phase}") == "Active"


def test_two_stacks_cannot_share_a_namespace(sandbox: Sandbox, stack: str) -> None:
    program = 'with Experiment("e") as e: e.new_process("a", command="true")'
    up(sandbox, stack, program)
    other = f"{stack}-other"
    settings = yaml.safe_load((sandbox.folder / f"Pulumi.{stack}.yaml").read_text())["config"]
    sandbox.config(other, **settings, namespace=stack)
    output = up(sandbox, other, program, code=2)
    assert f"belongs to kube/{stack}" in output


def test_a_user_without_the_right_is_told_which(sandbox: Sandbox, stack: str, cluster: Cluster) -> None:
    if not cluster.user_kubeconfig:
        pytest.skip("this cluster has no ordinary user of ours")
    sandbox.config(stack, **{"kubernetes:kubeconfig": cluster.user_kubeconfig})
    output = up(sandbox, stack, 'with Experiment("e") as e: e.new_process("a", command="true")')
    assert 'cannot get resource "namespaces"' in output


def test_an_ordinary_user_runs_in_a_namespace_made_for_them(
    sandbox: Sandbox, stack: str, cluster: Cluster, live: Live, kubectl: Callable[..., str]
) -> None:
    """What others make there under a name of ours is left alone."""
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
        assert f"the service {alpha} in namespace ordinary is not the one" in refused
        assert len(refused.splitlines()) == 1
        assert len(live("pods", "ordinary")) == 2
    finally:
        kubectl("-n", "ordinary", "delete", "service", alpha, "--ignore-not-found")
        sandbox.symphony("delete", stack, "-y", timeout=120)
    assert [each["metadata"]["name"] for each in live("services", "ordinary")] == []
    assert live("pods", "ordinary") == []


@pytest.fixture
def black_hole() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.thorough
def test_a_server_that_says_nothing_is_an_error_in_time(black_hole: str) -> None:
    began = time.monotonic()
    with pytest.raises(Unreachable, match="does not answer"):
        client_to(black_hole).get(path_of("pods", "x"))
    assert time.monotonic() - began < 30


@pytest.mark.thorough
def test_a_black_hole_ends_every_command_in_time(
    sandbox: Sandbox, stack: str, black_hole: str, tmp_path: Path
) -> None:
    up(sandbox, stack, 'with Experiment("e") as e: e.new_process("a", command="sleep", args=["99"])')
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(_kubeconfig(black_hole)))
    sandbox.config(stack, **{"kubernetes:kubeconfig": str(file)})
    began = time.monotonic()
    output = up(sandbox, stack, 'with Experiment("e") as e: e.new_process("a", command="true")', code=1)
    assert time.monotonic() - began < 30
    assert "does not answer" in output


def test_a_kubeconfig_without_the_context_says_what_there_is(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(_kubeconfig("http://127.0.0.1:1")))
    with pytest.raises(SymphonyError, match='has no context "b"') as error:
        client_of(str(file), "b")
    assert error.value.remedy == "It has: a"
    with pytest.raises(SymphonyError, match="cannot be read"):
        client_of(str(tmp_path / "none"), "")


def _kubeconfig(server: str) -> dict[str, Any]:
    return {
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "contexts": [{"name": "a", "context": {"cluster": "a"}}],
        "current-context": "a",
    }
