"""The one-machine cluster works like a cluster: pods run, names resolve, users are limited to their Role."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.sandbox import wait_for
from toolchain.kubernetes import cluster as one_machine
from toolchain.kubernetes import daemons, images
from toolchain.kubernetes.control_plane import accounts
from toolchain.kubernetes.fixtures import Access
from toolchain.kubernetes.layout import NODE_ADDRESS, Layout
from toolchain.kubernetes.machine import processes

pytestmark = pytest.mark.kubernetes

Kubectl = Callable[..., str]
SERVE = "mkdir -p /tmp/w && echo hello > /tmp/w/index.html && echo started && exec httpd -f -p 8080 -h /tmp/w"


@pytest.fixture
def own(cluster: Access) -> Layout:
    """Return the cluster of this machine; skip against another one."""
    if not cluster.registry:
        pytest.skip("SYMPHONY_TEST_KUBECONFIG names another cluster")
    return Layout.default()


def pod(name: str, script: str, image: str = images.BUSYBOX_IMAGE, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": image, "command": ["sh", "-c", script]}
    metadata = {"name": name, "labels": {"app": name}}
    whole = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


def service(name: str) -> dict[str, Any]:
    spec = {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def run(kubectl: Kubectl, namespace: str, *manifests: dict[str, Any]) -> None:
    """Create the objects and wait until the pods among them are ready."""
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    kubectl("-n", namespace, "apply", "-f", "-", stdin=listed)
    pods = [f"pod/{each['metadata']['name']}" for each in manifests if each["kind"] == "Pod"]
    kubectl("-n", namespace, "wait", "--for=condition=Ready", "--timeout=60s", *pods)


def test_pods_services_names_logs_and_exec(own: Layout, kubectl: Kubectl, namespace: str):
    run(kubectl, namespace, pod("web", SERVE), service("web"), pod("client", "sleep 1000"))
    inside = ("-n", namespace, "exec", "client", "--")
    assert kubectl("-n", namespace, "logs", "web") == "started\n"
    address = kubectl("-n", namespace, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
    for host in (address, "web", f"web.{namespace}.svc.cluster.local"):
        assert kubectl(*inside, "wget", "-q", "-O-", f"http://{host}") == "hello\n"
    assert "NXDOMAIN" in kubectl(*inside, "nslookup", f"none.{namespace}.svc.cluster.local", ok=False)
    assert "exit code 7" in kubectl(*inside, "sh", "-c", "exit 7", ok=False)


def test_a_name_resolves_as_soon_as_its_service_exists(own: Layout, kubectl: Kubectl, namespace: str):
    run(kubectl, namespace, pod("client", "sleep 1000"))
    resolve = ("-n", namespace, "exec", "client", "--", "nslookup", f"late.{namespace}.svc.cluster.local")
    assert "NXDOMAIN" in kubectl(*resolve, ok=False)
    kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(service("late")))
    assert "Address: 10.213." in kubectl(*resolve)


def test_an_image_of_our_own_runs(own: Layout, kubectl: Kubectl, namespace: str, cluster: Access):
    script = b"#!/bin/sh\necho made here; exec sleep 1000\n"
    files = {"bin/busybox": images.busybox(), "bin/mine": script}
    image = f"{cluster.registry}/test/{namespace}:1"
    images.push(image, files, ["/bin/mine"], links={"bin/sh": "busybox", "bin/sleep": "busybox"})
    made = pod("mine", "", image=image)
    del made["spec"]["containers"][0]["command"]
    run(kubectl, namespace, made)
    assert kubectl("-n", namespace, "logs", "mine") == "made here\n"


def test_docker_builds_and_pushes_what_runs(
    own: Layout, kubectl: Kubectl, namespace: str, cluster: Access, tmp_path: Path
):
    (tmp_path / "busybox").write_bytes(images.busybox())
    (tmp_path / "busybox").chmod(0o755)
    steps = ["FROM scratch", "COPY busybox /bin/sh", 'RUN ["/bin/sh", "-c", "echo built > /it"]']
    (tmp_path / "Dockerfile").write_text("\n".join(steps))
    image = f"{cluster.registry}/test/{namespace}:docker"
    environment = {**os.environ, "DOCKER_HOST": cluster.docker_host, "DOCKER_BUILDKIT": "0"}
    for words in (("build", "-q", "-t", image, str(tmp_path)), ("push", "-q", image), ("rmi", "-f", image)):
        subprocess.run(["docker", *words], env=environment, timeout=120, check=True, capture_output=True)
    run(kubectl, namespace, pod("it", "cat it; while :; do read x < /dev/zero; done", image=image))
    assert kubectl("-n", namespace, "logs", "it") == "built\n"


def test_pods_are_placed_on_nodes_that_do_not_exist(own: Layout, kubectl: Kubectl, namespace: str):
    tolerations = [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]
    run(kubectl, namespace, pod("ghost", "", nodeSelector={"type": "kwok"}, tolerations=tolerations))
    node = kubectl("-n", namespace, "get", "pod", "ghost", "-o", "jsonpath={.spec.nodeName}")
    assert node.startswith("kwok-")


def test_the_ordinary_user_has_the_role_and_no_more(own: Layout, kubectl: Kubectl, namespace: str):
    user = str(own.user_kubeconfig)
    accounts.grant(own, accounts.ORDINARY, namespace)
    kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(pod("mine", "sleep 1000")), kubeconfig=user)
    kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod/mine", "--timeout=60s", kubeconfig=user)
    assert kubectl("-n", namespace, "exec", "mine", "--", "echo", "in", kubeconfig=user) == "in\n"
    for words in (
        ("get", "nodes"),
        ("get", "pods", "-n", "kube-system"),
        ("get", "secrets", "-n", "default"),
        ("create", "namespace", "mine"),
        ("-n", namespace, "create", "rolebinding", "more", "--clusterrole=cluster-admin", "--user=ordinary"),
        ("-n", namespace, "create", "quota", "more"),
    ):
        assert "forbidden" in kubectl(*words, kubeconfig=user, ok=False).lower(), words


def test_up_again_starts_nothing_anew(own: Layout):
    first = pids(own, one_machine.up(own, say=lambda text: None))
    again = one_machine.up(own, say=lambda text: None)
    assert again.ready
    assert pids(own, again) == first


def pids(own: Layout, state: one_machine.Status) -> dict[str, int]:
    """Return the process of each program of the cluster; assert that all run."""
    assert state.stopped == []
    result = {name: daemons.running(own, name) for name in state.running}
    return {name: process.pid for name, process in result.items() if process}


def test_a_program_that_was_killed_is_started_by_up(own: Layout):
    killed = daemons.running(own, "kube-scheduler")
    assert killed
    killed.kill()
    # The machine's first process reaps it, in its own time.
    wait_for(lambda: daemons.running(own, "kube-scheduler") is None, 10, "it is gone")
    assert "kube-scheduler" in one_machine.status(own).stopped
    assert "kube-scheduler" in one_machine.up(own, say=lambda text: None).running


def test_it_listens_on_loopback_and_its_own_bridge_only(own: Layout):
    pids = {process.pid for process in processes.of_cluster(own.folder)}
    listening = [
        each for each in psutil.net_connections("inet") if each.status == "LISTEN" and each.pid in pids
    ]
    assert listening
    assert {each.laddr.ip for each in listening if each.laddr} <= {"127.0.0.1", "::1", NODE_ADDRESS}


def test_only_the_owner_reads_the_keys(own: Layout):
    for path in (own.folder, own.path("certificates"), own.path("kubeconfigs")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_status_is_json(own: Layout):
    state = one_machine.status(own)
    assert json.loads(state.as_json()) == dataclasses.asdict(state)


def test_down_refuses_while_tests_use_it(own: Layout):
    command = [sys.executable, "-m", "toolchain.kubernetes", "down"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "tests are using this cluster" in done.stderr
    assert one_machine.status(own).ready
