"""How the stand-in plugin waits and deletes over a real API server: until it is ready, until it is gone."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict

from tests.toolchain.plugin_kubernetes.plugin_client import Plugin, config, kept, manifest, pod
from toolchain.kubernetes.api import Api
from toolchain.kubernetes.control_plane import accounts
from toolchain.kubernetes.fixtures import Access
from toolchain.kubernetes.layout import Layout

pytestmark = pytest.mark.kubernetes

Live = Callable[[str, str], dict[str, Any]]


def test_a_delete_waits_until_the_object_is_gone(plugin: Plugin, kubectl: Any, namespace: str, live: Live):
    held = {**config(), "metadata": {"name": "it", "finalizers": ["example.com/held"]}}
    id, inputs, outputs = plugin.make(held)
    ended = threading.Thread(target=plugin.delete, args=(id, outputs, inputs))
    ended.start()
    time.sleep(1.5)
    assert ended.is_alive()
    assert live("configmap", "it")["metadata"]["deletionTimestamp"]
    kubectl("-n", namespace, "patch", "configmap", "it", "-p", '{"metadata": {"finalizers": null}}')
    ended.join(10)
    assert not ended.is_alive()
    assert live("configmap", "it") == {}


def test_a_delete_that_is_held_up_says_by_what(plugin: Plugin, kubectl: Any, namespace: str):
    held = {**config(), "metadata": {"name": "it", "finalizers": ["example.com/held"]}}
    id, inputs, outputs = plugin.make(held)
    with pytest.raises(grpc.RpcError, match=r"example\.com/held"):
        plugin.delete(id, outputs, inputs, timeout=1)
    kubectl("-n", namespace, "patch", "configmap", "it", "-p", '{"metadata": {"finalizers": null}}')


def test_skip_await_does_not_wait(plugin: Plugin, kubectl: Any, namespace: str, live: Live):
    metadata = {
        "name": "it",
        "finalizers": ["example.com/held"],
        "annotations": {"pulumi.com/skipAwait": "true"},
    }
    id, inputs, outputs = plugin.make({**config(), "metadata": metadata})
    plugin.delete(id, outputs, inputs)
    assert live("configmap", "it")["metadata"]["deletionTimestamp"]
    kubectl("-n", namespace, "patch", "configmap", "it", "-p", '{"metadata": {"finalizers": null}}')


def test_deleting_what_is_gone_succeeds(plugin: Plugin):
    id, inputs, outputs = plugin.make(config())
    plugin.delete(id, outputs, inputs)
    plugin.delete(id, outputs, inputs)


@pytest.mark.parametrize("kind", ["configmap", "pod"])
def test_a_delete_leaves_what_another_made_under_the_name(
    plugin: Plugin, kubectl: Any, namespace: str, live: Live, kind: str
):
    body = config() if kind == "configmap" else pod()
    id, inputs, outputs = plugin.make(body)
    kubectl("-n", namespace, "delete", kind, "it", "--now")
    kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(body))
    theirs = live(kind, "it")["metadata"]
    plugin.delete(id, outputs, inputs)
    assert live(kind, "it")["metadata"]["uid"] == theirs["uid"]
    assert "deletionTimestamp" not in live(kind, "it")["metadata"]
    assert f"{id} is gone; what has its name by now is not of this stack and stays" in plugin.log()


def test_a_delete_leaves_a_namespace_that_another_made_again(plugin: Plugin, kubectl: Any, namespace: str):
    name = f"{namespace}-again"
    id, inputs, outputs = plugin.make(manifest("Namespace", {"name": name}))
    kubectl("delete", "namespace", name, "--timeout=60s")
    kubectl("create", "namespace", name)
    try:
        plugin.delete(id, outputs, inputs)
        assert kubectl("get", "namespace", name, "-o", "jsonpath={.status.phase}") == "Active"
    finally:
        kubectl("delete", "namespace", name, "--wait=false")


def test_wait_for_the_uid_skips_readiness(plugin: Plugin):
    """The pod is never ready: no machine is one that it may be on."""
    _, _, outputs = plugin.make(pod())
    assert outputs["status"]["phase"] == "Pending"


def test_a_pod_is_awaited_until_it_is_ready(plugin: Plugin, cluster: Access):
    container = {"name": "c", "image": cluster.shell_image, "command": ["sleep", "1000"]}
    runs = manifest(
        "Pod", {"name": "it"}, spec={"containers": [container], "terminationGracePeriodSeconds": 0}
    )
    _, _, outputs = plugin.make(runs)
    conditions = {each["type"]: each["status"] for each in outputs["status"]["conditions"]}
    assert conditions["Ready"] == "True"


def life(plugin: Plugin, live: Live) -> None:
    """Create, change and delete what an experiment is made of."""
    spec = {"clusterIP": "None", "selector": {"app": "it"}, "ports": [{"port": 80}]}
    for body in (pod(), manifest("Service", {"name": "it"}, spec=spec), config()):
        id, inputs, outputs = plugin.make(body)
        labelled = {**inputs, "metadata": {**inputs["metadata"], "labels": {"a": "b"}}}
        outputs = plugin.update(id, outputs, labelled)
        plugin.delete(id, outputs, labelled)
        assert live(body["kind"], "it") == {}


def test_the_published_role_is_enough(
    cluster: Access, namespace: str, start: Callable[..., Plugin], live: Live
):
    if not cluster.user_kubeconfig:
        pytest.skip("SYMPHONY_TEST_KUBECONFIG names another cluster")
    accounts.grant(Api(Layout.default()), accounts.ORDINARY, namespace)
    life(start().configure(kubeconfig=cluster.user_kubeconfig, namespace=namespace), live)


def test_who_may_not_watch_still_waits(
    cluster: Access, namespace: str, start: Callable[..., Plugin], live: Live, kubectl: Any
):
    if not cluster.user_kubeconfig:
        pytest.skip("SYMPHONY_TEST_KUBECONFIG names another cluster")
    accounts.grant(Api(Layout.default()), accounts.ORDINARY, namespace)
    role = json.loads(kubectl("-n", namespace, "get", "role", "symphony-experimenter", "-o", "json"))
    for rule in role["rules"]:
        rule["verbs"] = [verb for verb in rule["verbs"] if verb != "watch"]
    kubectl("-n", namespace, "replace", "-f", "-", stdin=json.dumps(role))
    plugin = start().configure(kubeconfig=cluster.user_kubeconfig, namespace=namespace)
    life(plugin, live)
    with pytest.raises(grpc.RpcError, match="node"):
        plugin.create(plugin.check(pod(annotations={})), timeout=2)


def test_a_forbidden_verb_is_named(cluster: Access, start: Callable[..., Plugin]):
    if not cluster.user_kubeconfig:
        pytest.skip("SYMPHONY_TEST_KUBECONFIG names another cluster")
    plugin = start().configure(kubeconfig=cluster.user_kubeconfig, namespace="default")
    with pytest.raises(grpc.RpcError, match=r'cannot patch resource \\?"configmaps'):
        plugin.create(plugin.check(config()))


def test_what_does_not_become_ready_stays_in_the_state(plugin: Plugin, namespace: str, live: Live):
    with pytest.raises(grpc.RpcError) as raised:
        plugin.create(plugin.check(pod(annotations={})), timeout=2)
    detail = kept(raised.value)
    assert detail.id == f"{namespace}/it"
    assert "node" in detail.reasons[0], "the scheduler's words"
    properties, inputs = MessageToDict(detail.properties), MessageToDict(detail.inputs)
    assert properties["metadata"]["uid"] == live("pod", "it")["metadata"]["uid"]
    assert inputs["spec"]["containers"][0]["image"] == "none:1"


def test_a_service_with_a_selector_waits_for_a_pod(plugin: Plugin):
    spec = {"selector": {"app": "it"}, "ports": [{"port": 80}]}
    with pytest.raises(grpc.RpcError, match="no ready pod"):
        plugin.create(plugin.check(manifest("Service", {"name": "it"}, spec=spec)), timeout=1)
    plugin.make(manifest("Service", {"name": "headless"}, spec={**spec, "clusterIP": "None"}))


def test_cancel_ends_a_wait_and_keeps_the_object(plugin: Plugin, namespace: str):
    ends: list[grpc.RpcError] = []

    def create() -> None:
        try:
            plugin.create(plugin.check(pod(annotations={})))
        except grpc.RpcError as error:
            ends.append(error)

    waits = threading.Thread(target=create)
    waits.start()
    time.sleep(1.5)
    plugin.cancel()
    waits.join(5)
    assert not waits.is_alive()
    assert kept(ends[0]).id == f"{namespace}/it"
