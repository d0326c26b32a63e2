"""Faults of the cluster around an experiment, by their rows in the list of faults; more rows are in the
files beside this one and in tests/toolchain, each test named after its row.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from symphony import Experiment
from symphony.backends.kubernetes import objections, target
from symphony.backends.kubernetes.client import Client, client_of, path_of
from symphony.backends.kubernetes.settings import Settings
from symphony.plan.build import build_plan, problems
from tests.backends.kubernetes.relay import relayed, silenced
from tests.backends.kubernetes.test_runs import Live, becomes, uids, up
from tests.backends.kubernetes.test_troubles import SLEEPER, lines, place
from tests.desk import SYMPHONY, Desk, wait_for
from toolchain.kubernetes.fixtures import Access as Cluster

__all__ = ["place"]
ON_THE_CLUSTER = [pytest.mark.kubernetes, pytest.mark.timeout(300)]
Kubectl = Callable[..., str]


def on_the_cluster(test: Any) -> Any:
    for mark in ON_THE_CLUSTER:
        test = mark(test)
    return test


@on_the_cluster
def test_f61_out_of_memory_is_told_with_the_signal(desk: Desk, stack: str, cluster: Cluster) -> None:
    hog = """
with Experiment("e") as e:
    e.new_process("hog", command=["python3", "-c", "x = b'x' * (1 << 30)"]).resource_limit(memory="48Mi")
"""
    desk.config(stack, image=cluster.python_image)
    up(desk, stack, hog)
    why = becomes(desk, stack, "hog", "failed")["why"]
    assert why.startswith("out of memory, exit 137 (SIGKILL)")


@pytest.fixture
def node(stack: str, kubectl: Kubectl, cluster: Cluster) -> Iterator[Callable[[], str]]:
    """Makes a node of the test's own that kwok calls ready; to be called again when it is gone."""
    if not cluster.registry:
        pytest.skip("this cluster has no nodes that do not exist")
    name = f"kwok-{stack}"

    def make() -> str:
        labels = {"type": "kwok", "test": stack}
        metadata = {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
        taint = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": [taint]}}
        room = {"cpu": "8", "memory": "8Gi", "pods": "10"}
        kubectl("apply", "-f", "-", stdin=json.dumps(body))
        status = json.dumps({**body, "status": {"allocatable": room, "capacity": room}})
        kubectl(
            "apply", "--server-side", "--force-conflicts", "--subresource=status", "-f", "-", stdin=status
        )
        return name

    yield make
    kubectl("delete", "node", name, "--ignore-not-found")


@on_the_cluster
@pytest.mark.slow  # The cluster waits for 40 s before it takes away the pods of a node that is gone.
def test_f62_what_a_lost_node_took_along_comes_back_with_up(
    desk: Desk, stack: str, node: Callable[[], str], kubectl: Kubectl, live: Live
) -> None:
    program = """
with Experiment("e") as e:
    e.new_process("a", command="sleep", args=["999"])
    p = e.new_process("b", command="sleep", args=["999"])
    p.node_selector("test", STACK)
    p.add_toleration(key="kwok.x-k8s.io/node", operator="Exists")
""".replace("STACK", repr(stack))
    name = node()
    up(desk, stack, program, code=0)
    before = uids(live, stack)
    kubectl("delete", "node", name)
    becomes(desk, stack, "b", "lost", seconds=150)
    node()
    up(desk, stack, program, code=0)
    becomes(desk, stack, "b", "running")
    assert uids(live, stack)["a"] == before["a"]


@on_the_cluster
def test_f69_a_namespace_that_does_not_go_says_what_holds_it(
    desk: Desk, stack: str, kubectl: Kubectl
) -> None:
    up(desk, stack, SLEEPER, code=0)
    finalizer = '{"metadata": {"finalizers": ["test.example/held"]}}'
    kubectl("-n", stack, "create", "configmap", "held")
    kubectl("-n", stack, "patch", "configmap", "held", "--type=merge", "-p", finalizer)
    kubectl("delete", "namespace", stack, "--wait=false")
    try:
        wait_for(lambda: "held in 1" in up(desk, stack, SLEEPER, code=2), 60, "its reason", pause=1)
        (problem,) = [line for line in up(desk, stack, SLEEPER, code=2).splitlines() if "still" in line]
        assert f"{stack} is still being deleted" in problem
    finally:
        kubectl(
            "-n",
            stack,
            "patch",
            "configmap",
            "held",
            "--type=merge",
            "-p",
            '{"metadata": {"finalizers": []}}',
        )
    desk.symphony("delete", stack, "-y")


@on_the_cluster
@pytest.mark.slow  # The engine waits two minutes; and meanwhile no namespace of the cluster goes.
def test_f69_an_api_that_nobody_serves_holds_up_delete_which_says_so(
    desk: Desk, stack: str, applied: Callable[[dict[str, Any]], None], kubectl: Kubectl
) -> None:
    up(desk, stack, SLEEPER, code=0)
    spec = {
        "group": f"{stack}.test.example",
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"namespace": "default", "name": "nobody"},
        "insecureSkipTLSVerify": True,
    }
    name = f"v1.{stack}.test.example"
    kind = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}
    applied({**kind, "metadata": {"name": name}, "spec": spec})
    kubectl("wait", "--for=condition=Available=false", f"apiservice/{name}", "--timeout=30s")
    try:
        ran = desk.symphony("delete", stack, "-y", code=1, timeout=200)
    finally:
        kubectl("delete", "apiservice", name)
    assert stack in ran.err
    assert f"{name.removeprefix('v1.')}/v1" in ran.err, ran.err
    desk.symphony("delete", stack, "-y", timeout=120)


@on_the_cluster
def test_f70_up_while_the_namespace_goes_is_one_line_and_then_makes_all_anew(
    desk: Desk, stack: str, kubectl: Kubectl, live: Live
) -> None:
    program = 'with Experiment("e") as e: e.new_process("a", command="sleep", args=["999"]).binds("alpha")'
    up(desk, stack, program, code=0)
    kubectl("delete", "namespace", stack, "--wait=false")
    said = up(desk, stack, program, code=2)
    assert f"the namespace {stack} is still being deleted" in said
    kubectl("wait", "--for=delete", f"namespace/{stack}", "--timeout=60s")
    up(desk, stack, program, code=0)
    assert becomes(desk, stack, "a", "running")["ready"]
    assert [each["metadata"]["name"] for each in live("services", stack)] == ["alpha"]
    desk.symphony("delete", stack, "-y")
    assert live("pods", stack) == []


@on_the_cluster
def test_f71_a_pod_of_another_is_not_taken_over(
    desk: Desk, stack: str, place: str, cluster: Cluster, kubectl: Kubectl, live: Live
) -> None:
    kubectl("-n", place, "run", "a", f"--image={cluster.shell_image}", "--command", "--", "sleep", "99")
    before = uids(live, place)
    desk.config(stack, namespace=place, createNamespace="false")
    (line,) = lines(up(desk, stack, SLEEPER, code=2))
    assert f"the pod a in namespace {place} belongs to somebody else" in line
    desk.symphony("delete", stack, "-y", code=None)
    assert uids(live, place) == before


@on_the_cluster
def test_f72_a_secret_that_changed_reaches_the_file_of_a_running_process(
    desk: Desk, stack: str, tmp_path: Path, live: Live
) -> None:
    """Its pod is not replaced for it; what a process has read before is its own to read again."""
    key = tmp_path / "key.txt"
    program = f"""
with Experiment("e", secrets=[{str(key)!r}]) as e:
    read = 'while :; do read line < $SYMPH_SECRETS_DIR/key.txt; echo "is $line"; sleep 1; done'
    e.new_process("a", command="sh", args=["-c", read])
"""
    key.write_text("first\n")
    up(desk, stack, program, code=0)
    before = uids(live, stack)
    key.write_text("second\n")
    up(desk, stack, program, code=0)
    wait_for(lambda: "is second" in desk.symphony("logs", stack, "-t", "3").out, 100, "the file", pause=1)
    assert uids(live, stack) == before


@on_the_cluster
def test_f74_a_token_that_is_not_known_any_more_is_one_line(
    desk: Desk, stack: str, cluster: Cluster, tmp_path: Path
) -> None:
    content: dict[str, Any] = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    content["users"][0]["user"] = {"token": "expired-long-ago"}
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(content))
    desk.config(stack, **{"kubernetes:kubeconfig": str(file)})
    said = up(desk, stack, SLEEPER, code=1)
    assert "does not know who you are" in said
    assert "expired-long-ago" not in said
    desk.config(stack, **{"kubernetes:kubeconfig": cluster.kubeconfig})


@on_the_cluster
def test_f76_an_nfs_server_that_is_not_there_is_told_and_holds_up_nothing(desk: Desk, stack: str) -> None:
    desk.config(stack, patience="8")
    program = """
with Experiment("e") as e:
    e.new_process("a", command="true").mount_nfs("127.0.0.9", "/nowhere", "/data")
"""
    up(desk, stack, program, code=1)
    assert "/nowhere" in becomes(desk, stack, "a", "waiting", "FailedMount")["why"]
    began = time.monotonic()
    desk.symphony("delete", stack, "-y")
    assert time.monotonic() - began < 40


@pytest.fixture
def applied(kubectl: Kubectl) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Applies objects that no namespace holds, and removes them."""
    made: list[dict[str, Any]] = []

    def apply(thing: dict[str, Any]) -> None:
        made.append(thing)
        kubectl("apply", "-f", "-", stdin=json.dumps(thing))

    yield apply
    for each in reversed(made):
        kubectl("delete", each["kind"], each["metadata"]["name"], "--ignore-not-found")


def ours(stack: str) -> dict[str, Any]:
    return {"matchLabels": {"symphony/experiment": stack}}


@on_the_cluster
def test_f77_an_admission_webhook_that_is_down_is_quoted(
    desk: Desk, stack: str, applied: Callable[[dict[str, Any]], None]
) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {
        "name": "down.test.example",
        "clientConfig": {"url": "https://127.0.0.1:9/x"},
        "rules": [rule],
        "namespaceSelector": ours(stack),
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 2,
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    applied({**kind, "metadata": {"name": stack}, "webhooks": [hook]})
    time.sleep(1)  # The server takes a moment to know of it.
    (line,) = lines(up(desk, stack, SLEEPER, code=1))
    assert 'failed calling webhook "down.test.example"' in line


@on_the_cluster
def test_f77_a_policy_that_denies_is_quoted(
    desk: Desk, stack: str, kubectl: Kubectl, applied: Callable[[dict[str, Any]], None]
) -> None:
    api = {"apiVersion": "admissionregistration.k8s.io/v1"}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": ours(stack)},
        "validations": [{"expression": "false", "message": "not on a Saturday"}],
    }
    applied({**api, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": stack}, "spec": spec})
    bound = {"policyName": stack, "validationActions": ["Deny"]}
    applied({**api, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": stack}, "spec": bound})
    wait_for(lambda: _denied(kubectl, stack), 30, "the policy is in force", pause=0.5)
    (line,) = lines(up(desk, stack, SLEEPER, code=1))
    assert "not on a Saturday" in line


def _denied(kubectl: Kubectl, stack: str) -> bool:
    """A policy takes a while to be in force; a namespace with the same label shows when it is."""
    name = f"{stack}-look"
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **_labels(stack)}}
    kubectl("apply", "-f", "-", stdin=json.dumps(space))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": name}}
    whole = {
        **pod,
        "spec": {"automountServiceAccountToken": False, "containers": [{"name": "x", "image": "x"}]},
    }
    said = kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(whole), ok=False)
    denied = "created" not in said
    if denied:
        kubectl("delete", "namespace", name, "--wait=false")
    return denied


def _labels(stack: str) -> dict[str, Any]:
    return {"labels": {"symphony/experiment": stack}}


@on_the_cluster
def test_f78_a_load_balancer_that_never_comes_holds_up_nothing(desk: Desk, stack: str, live: Live) -> None:
    """Nobody gives addresses to load balancers here: the processes run, and find each other, all the same."""
    desk.config(stack, expose="LoadBalancer", sourceRanges="203.0.113.0/24")
    program = """
with Experiment("e") as e:
    e.new_process("a", command="sleep", args=["999"]).exposes({"web": 8080})
"""
    began = time.monotonic()
    up(desk, stack, program, code=0)
    assert time.monotonic() - began < 60
    (service,) = live("services", stack)
    assert service["spec"]["loadBalancerSourceRanges"] == ["203.0.113.0/24"]
    assert service["status"]["loadBalancer"] == {}


NAMES = st.one_of(
    st.text(max_size=70),
    st.from_regex(r"[a-z0-9.-]{1,80}", fullmatch=True),
    st.sampled_from(["A", "a_b", "-a", "a-", "a.b", "1a", "ä", "a" * 63, "a" * 64, "kube-system"]),
)


@given(NAMES, NAMES)
def test_f79_a_name_is_taken_as_it_is_or_refused_with_a_remedy(first: str, second: str) -> None:
    """No name is bent into another, so that no two meet."""
    experiment = Experiment("e")
    experiment.new_process(first)
    experiment.new_process_group(second).new_process("member")
    where = target.target(experiment.spec, Settings(image="x"), "e")
    if found := problems(experiment.spec, where):
        assert all(problem.what and problem.remedy for problem in found)
        return
    plan = build_plan(experiment.spec, where)
    assert [each.path for each in plan.processes] == [first, f"{second}/member"]


def test_f80_more_than_a_pod_can_hold_is_refused_before_anything_starts() -> None:
    (problem,) = _judged(objections.MAX_POD + 1)
    assert "more than the" in problem


@on_the_cluster
def test_f80_the_most_that_is_planned_the_server_takes(stack: str, cluster: Cluster, place: str) -> None:
    """With one letter less than is refused, twice escaped on its way."""
    from symphony.backends.kubernetes import render

    experiment = _wordy(objections.MAX_POD - 100)
    plan = build_plan(experiment.spec, target.target(experiment.spec, Settings(image="x"), place))
    client: Client = client_of(cluster.kubeconfig, "")
    (pod,) = [
        each for each in render.render(plan, Settings(image="x"), "t/x#1").all() if each["kind"] == "Pod"
    ]
    client.request("POST", path_of("pods", place), {"dryRun": "All"}, pod)


def test_f80_secrets_that_no_secret_can_hold_are_refused_before_anything_starts() -> None:
    experiment = Experiment("e", secrets=["large"])
    experiment.new_process("a")
    for size, refused in ((1_000_000, False), (1 << 21, True)):
        where = target.target(experiment.spec, Settings(image="x"), "e", secrets={"large": size})
        found = [each.what for each in problems(experiment.spec, where)]
        assert bool(found) is refused, found


def _wordy(size: int) -> Experiment:
    experiment = Experiment("e")
    words, rest = divmod(size, 100_000)
    experiment.new_process("a", args=["x" * 100_000] * words + ["x" * rest])
    return experiment


def _judged(size: int) -> list[str]:
    spec = _wordy(size).spec
    return [each.what for each in problems(spec, target.target(spec, Settings(image="x"), "e"))]


@on_the_cluster
def test_f81_a_log_goes_on_where_its_connection_broke(
    desk: Desk, stack: str, cluster: Cluster, tmp_path: Path
) -> None:
    """No line is lost, none is told twice; when the pod is gone the command ends."""
    program = """
with Experiment("e") as e:
    e.new_process("a", command="sh", args=["-c", "i=0; while :; do echo n $i; i=$((i+1)); sleep 0.1; done"])
"""
    with relayed(cluster.kubeconfig, tmp_path) as (kubeconfig, cut):
        desk.config(stack, **{"kubernetes:kubeconfig": kubeconfig})
        up(desk, stack, program, code=0)
        following = desk.start([str(SYMPHONY), "logs", stack, "a", "-f"])
        assert following.stdout is not None
        seen: list[int] = []
        for moment in (20, 40, 60, 80):
            while len(seen) < moment:
                seen.append(int(following.stdout.readline().split()[1]))
            assert cut() > 0
        client_of(cluster.kubeconfig, "").delete(path_of("pods", stack, "a"), grace=0)
        out, err = following.communicate(timeout=60)
        seen += [int(line.split()[1]) for line in out.splitlines() if line.startswith("n ")]
        assert seen == list(range(len(seen)))
        assert following.returncode == 0, err
        desk.config(stack, **{"kubernetes:kubeconfig": cluster.kubeconfig})


@on_the_cluster
def test_f81_a_command_whose_connection_broke_ends_with_one_line(
    desk: Desk, stack: str, cluster: Cluster, tmp_path: Path
) -> None:
    with relayed(cluster.kubeconfig, tmp_path) as (kubeconfig, cut):
        desk.config(stack, **{"kubernetes:kubeconfig": kubeconfig})
        up(desk, stack, SLEEPER, code=0)
        code, err, _ = _broken_off(desk, stack, cut)
        assert code not in (0, None)
        assert len(err.splitlines()) == 1, err
        desk.config(stack, **{"kubernetes:kubeconfig": cluster.kubeconfig})


@on_the_cluster
def test_f81_a_command_whose_pod_is_killed_ends_with_it(desk: Desk, stack: str, cluster: Cluster) -> None:
    up(desk, stack, SLEEPER, code=0)
    pod = path_of("pods", stack, "a")
    code, err, seconds = _broken_off(
        desk, stack, lambda: client_of(cluster.kubeconfig, "").delete(pod, grace=0)
    )
    assert code not in (0, None)
    assert len(err.splitlines()) <= 1, err
    assert seconds < 20


def _broken_off(desk: Desk, stack: str, disturb: Callable[[], object]) -> tuple[int, str, float]:
    """How a command in a process ends that is disturbed in its middle: code, what it says, how soon."""
    words = [str(SYMPHONY), "exec", stack, "a", "--", "sh", "-c", "echo ready; sleep 300"]
    running = desk.start(words)
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    began = time.monotonic()
    disturb()
    _, err = running.communicate(timeout=60)
    return running.returncode, err, time.monotonic() - began


@on_the_cluster
def test_f81_a_forwarded_port_serves_on_after_its_connections_broke(
    desk: Desk, stack: str, cluster: Cluster, tmp_path: Path
) -> None:
    serve = "echo hello > /tmp/index.html; httpd -p 6006 -h /tmp; sleep 999"
    program = f"""
with Experiment("e") as e:
    e.new_process("a", command="sh", args=["-c", {serve!r}]).exposes({{"board": 6006}})
"""

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"{url}/index.html", timeout=10) as answer:
                return answer.read() == b"hello\n"
        except OSError:
            return False

    with relayed(cluster.kubeconfig, tmp_path) as (kubeconfig, cut):
        desk.config(stack, **{"kubernetes:kubeconfig": kubeconfig})
        up(desk, stack, program, code=0)
        visiting = desk.start([str(SYMPHONY), "visit", stack, "-u"])
        assert visiting.stdout is not None
        url = visiting.stdout.readline().strip()
        for _ in range(3):
            wait_for(answers, 20, "it answers", pause=0.3)
            cut()
        visiting.send_signal(signal.SIGINT)
        visiting.communicate(timeout=15)
        desk.config(stack, **{"kubernetes:kubeconfig": cluster.kubeconfig})


@on_the_cluster
def test_f82_a_registry_that_wants_a_password_is_told_with_the_image(
    desk: Desk, stack: str, own: Cluster
) -> None:
    with _locked_registry() as registry:
        image = f"{registry}/private/thing:1"
        program = f'with Experiment("e") as e: e.new_process("a", command="true", image={image!r})'
        up(desk, stack, program, code=1)
        why = becomes(desk, stack, "a", "waiting", "401 Unauthorized")["why"]
    assert image in why


@contextlib.contextmanager
def _locked_registry() -> Iterator[str]:
    """A registry of this machine that knows nobody."""

    class Locked(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="test"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *words: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Locked) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"localhost:{server.server_address[1]}"
        server.shutdown()


@on_the_cluster
def test_what_was_read_of_a_pod_that_is_gone_can_be_read_again(
    desk: Desk, stack: str, kubectl: Kubectl
) -> None:
    speaks = (
        'with Experiment("e") as e: e.new_process("a", command="sh", args=["-c", "echo word; sleep 999"])'
    )
    up(desk, stack, speaks, code=0)
    wait_for(lambda: "word" in desk.symphony("logs", stack).out, 20, "its word", pause=0.3)
    kubectl("-n", stack, "delete", "pod", "a", "--now")
    becomes(desk, stack, "a", "lost")
    assert "word" in desk.symphony("logs", stack).out
    up(desk, stack, speaks, code=0)
    both = wait_for(
        lambda: (out := desk.symphony("logs", stack).out).count("word") > 1 and out, 20, "both", pause=0.3
    )
    assert both.count("word") == 2


@on_the_cluster
def test_f68_a_server_that_falls_silent_while_the_engine_works_is_an_error_within_30_s(
    desk: Desk, stack: str, cluster: Cluster, tmp_path: Path, live: Live
) -> None:
    slow = """
with Experiment("e") as e:
    for i in range(6):
        e.new_process(f"p{{i}}", command="sh", args=["-c", "trap : TERM; sleep 99{} & wait; wait"])
"""
    desk.config(stack, grace="20")
    up(desk, stack, slow.format(0), code=0)
    with silenced(cluster.kubeconfig, tmp_path) as (kubeconfig, silence):
        desk.config(stack, **{"kubernetes:kubeconfig": kubeconfig})
        desk.write(slow.format(1))
        process = desk.start([str(SYMPHONY), "up", stack, "-y"])
        # Pods that do not go at once: the engine waits for them.
        wait_for(
            lambda: any("deletionTimestamp" in each["metadata"] for each in live("pods", stack)),
            30,
            "it works",
        )
        began = time.monotonic()
        silence.set()
        out, err = process.communicate(timeout=120)
        seconds = time.monotonic() - began
        assert process.returncode == 1, out + err
        assert "does not answer" in err, err
        assert seconds < 30, f"{seconds:.1f} s"
        # The way of which the state knows leads to the server again.
        Path(kubeconfig).write_text(Path(cluster.kubeconfig).read_text())
    for pod in [each["metadata"]["name"] for each in live("pods", stack)]:
        client_of(cluster.kubeconfig, "").delete(path_of("pods", stack, pod), grace=0)
    up(desk, stack, slow.format(1), code=0)
