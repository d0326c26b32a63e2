"""Failures in Pulumi's Kubernetes plugin are reported by process, with the reason."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.backends.kubernetes.relay import relayed, silenced
from tests.backends.kubernetes.status.test_troubles import SLEEPER, lines
from tests.backends.kubernetes.test_runs import Live, becomes, uids, up
from tests.sandbox import SYMPHONY, Sandbox, wait_for
from toolchain.kubernetes.fixtures import Access as Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.thorough, pytest.mark.timeout(400)]
ADVICE = "DELETE_UNREACHABLE"
EVERY = "get,list,watch,create,patch,delete"


@pytest.fixture
def place(stack: str, cluster: Cluster, kubectl: Callable[..., str]) -> Iterator[str]:
    """A namespace in which the ordinary user has the rights that symphony needs."""
    if not cluster.user_kubeconfig:
        pytest.skip("this cluster has no ordinary user of ours")
    name = f"{stack}-place"
    kubectl("create", "namespace", name)
    rest = "services,configmaps,jobs,secrets"
    for role, resources in (("pods", "pods"), ("rest", rest), ("events", "events")):
        kubectl("-n", name, "create", "role", role, f"--verb={EVERY}", f"--resource={resources}")
        kubectl("-n", name, "create", "rolebinding", role, f"--role={role}", "--user=ordinary")
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


def test_a_forbidden_pod_update_is_reported_with_its_process_and_reason(
    sandbox: Sandbox, stack: str, place: str, cluster: Cluster, live: Live, kubectl: Callable[..., str]
) -> None:
    settings = {"kubernetes:kubeconfig": cluster.user_kubeconfig}
    sandbox.config(stack, namespace=place, createNamespace="false", **settings)
    program = """
with Experiment("e") as e:
    pod = e.new_process_group("pool")
    pod.new_process("w", command="sleep", args=["999"])
"""
    up(sandbox, stack, program, code=0)
    before = uids(live, place)
    kubectl("-n", place, "delete", "role", "pods")
    allowed = EVERY.replace("patch,", "")
    kubectl("-n", place, "create", "role", "pods", f"--verb={allowed}", "--resource=pods")
    # A label is changed in place.
    labelled = f'{program}    pod.pod_yml["metadata"] = {{"labels": {{"x": "y"}}}}'
    output = up(sandbox, stack, labelled, code=1)
    (line,) = lines(output)
    assert "error occurred" not in output
    assert 'cannot patch resource "pods"' in line
    assert "(pool)" in line
    assert uids(live, place) == before


def test_a_failed_image_pull_is_reported_by_process_after_pulumi_refresh(
    sandbox: Sandbox, stack: str, own: Cluster
) -> None:
    program = f"""
with Experiment("e") as e:
    e.new_process("a", command="true", image="{own.registry}/no/such:1")
"""
    up(sandbox, stack, program, code=1)
    becomes(sandbox, stack, "a", "waiting", "not found")
    sandbox.pulumi("refresh", "--stack", stack, "--yes", "--skip-preview", code=None, timeout=120)
    for text in (program, program.replace('"true"', '"false"')):
        output = up(sandbox, stack, text, code=1)
        lines = [line for line in output.splitlines() if "ErrImagePull" in line or "ImagePullBackOff" in line]
        assert lines
        assert all(line.split()[0] == "a" for line in lines), output
        assert "Failed:" not in output


# Resources are registered at the end of the program: the server becomes unreachable just before that.
GOES_AWAY = """
import time
from pathlib import Path
import pulumi
if not pulumi.runtime.is_dry_run():
    Path("declared").touch()
    while not Path("go-on").exists():
        time.sleep(0.05)
"""


def test_pulumis_advice_to_drop_live_resources_from_the_state_is_not_shown(
    sandbox: Sandbox, stack: str, cluster: Cluster, tmp_path: Path, live: Live
) -> None:
    with relayed(cluster.kubeconfig, tmp_path) as (kubeconfig, cut):
        sandbox.config(stack, **{"kubernetes:kubeconfig": kubeconfig})
        up(sandbox, stack, SLEEPER, code=0)
        before, state = uids(live, stack), _recorded_urns(sandbox, stack)
        sandbox.write(SLEEPER.replace("999", "998") + GOES_AWAY)
        declared, go_on = sandbox.folder / "declared", sandbox.folder / "go-on"
        process = sandbox.start([str(SYMPHONY), "up", stack, "-y"])
        wait_for(lambda: declared.exists() or process.poll() is not None, 60, "the program has declared")
    cut()
    go_on.touch()
    out, err = process.communicate(timeout=120)
    declared.unlink()
    go_on.unlink()
    said = [(process.returncode, out, err)]
    for words in (("up", "-y"), ("plan",), ("delete", "-y")):
        ran = sandbox.symphony(words[0], stack, *words[1:], code=1, timeout=120)
        said.append((ran.code, ran.out, ran.err))
    for code, out, err in said:
        assert ADVICE not in out + err
        assert code == 1
        assert len(err.splitlines()) == 1, err
        assert "does not answer" in err
    assert _recorded_urns(sandbox, stack) == state
    Path(kubeconfig).write_text(Path(cluster.kubeconfig).read_text())
    up(sandbox, stack, SLEEPER, code=0)
    assert set(uids(live, stack)) == set(before)


def _recorded_urns(sandbox: Sandbox, stack: str) -> set[str]:
    """Return the URNs in the state of a stack."""
    return {
        each["urn"]
        for each in sandbox.pulumi("stack", "export", "--stack", stack).json["deployment"]["resources"]
    }


def test_up_interrupted_while_creating_a_pod_says_so_and_the_next_up_adopts_the_pod(
    sandbox: Sandbox,
    stack: str,
    cluster: Cluster,
    tmp_path: Path,
    live: Live,
    applied: Callable[[dict[str, Any]], None],
) -> None:
    program = """
with Experiment("e") as e:
    for name in ("quick", "slow"):
        e.new_process(name, command=["sleep", "999"])
"""
    # A webhook that does not answer blocks the creation of one pod; the engine never gets the result.
    with (
        socket.create_server(("127.0.0.1", 0)) as webhook,
        silenced(cluster.kubeconfig, tmp_path) as (kubeconfig, silence),
    ):
        sandbox.config(stack, **{"kubernetes:kubeconfig": kubeconfig})
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        hook = {
            "name": "slow.test.example",
            "clientConfig": {"url": f"https://127.0.0.1:{webhook.getsockname()[1]}/"},
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"symphony/experiment": stack}},
            "objectSelector": {"matchLabels": {"symphony/pod": "slow"}},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "timeoutSeconds": 30,
        }
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        applied({**kind, "metadata": {"name": stack}, "webhooks": [hook]})
        sandbox.write(program)
        process = sandbox.start([str(SYMPHONY), "up", stack, "-y"])
        webhook.settimeout(60)
        held, _ = webhook.accept()
        assert process.stdout is not None
        while "quick  started" not in (line := process.stdout.readline()):
            assert line, "it is not told to have started"
        silence.set()
        held.close()
        wait_for(lambda: "slow" in uids(live, stack), 30, "the server made it")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "slow: interrupted while it changed" in out + err
    assert "failed" not in out + err
    sandbox.config(stack, **{"kubernetes:kubeconfig": cluster.kubeconfig})
    assert not any(urn.endswith("Pod::slow") for urn in _recorded_urns(sandbox, stack))
    before = uids(live, stack)
    output = up(sandbox, stack, program, code=0)
    assert "2 of 2 running" in output
    assert uids(live, stack) == before
