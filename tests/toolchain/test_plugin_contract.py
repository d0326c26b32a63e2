"""The stand-in plugin does over a real API server what Pulumi's own documents; one test a behaviour."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict

from tests.toolchain.plugin_client import Plugin, kept, manifest
from toolchain.kubernetes import accounts
from toolchain.kubernetes.api import Api
from toolchain.kubernetes.fixtures import Access
from toolchain.kubernetes.layout import Layout
from toolchain.plugin_kubernetes import provider
from toolchain.plugin_kubernetes.values import UNKNOWN, Secret, plain

pytestmark = pytest.mark.kubernetes

Live = Callable[[str, str], dict[str, Any]]
UID = {"pulumi.com/waitFor": "jsonpath={.metadata.uid}"}
NOWHERE = {"nodeSelector": {"no": "node"}, "containers": [{"name": "c", "image": "none:1"}]}


def config(name: str | None = "it", **data: str) -> dict[str, Any]:
    return manifest("ConfigMap", {"name": name} if name else {}, data=data or {"k": "v"})


def pod(name: str = "it", annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "annotations": UID if annotations is None else annotations}
    return manifest("Pod", metadata, spec={**NOWHERE, **spec})


def test_it_says_that_it_is_a_stand_in(plugin: Plugin):
    assert provider.NOTICE in plugin.log()


def test_every_character_arrives(plugin: Plugin, live: Live):
    """The server reads an apply as YAML, which takes fewer characters than JSON."""
    planes = [chr(number) for number in (*range(1, 0xD800), *range(0xE000, 0x10000))]
    text = "".join(planes) + "🎼\U0001fffe\U0010ffff" + '\\ud83c "\\n'
    plugin.create(plugin.check(config(k=text)))
    assert live("configmap", "it")["data"] == {"k": text}


# Names


def test_a_name_is_made_when_none_is_given(plugin: Plugin, live: Live):
    checked = plugin.check(config(None), name="thing")
    name = checked["metadata"]["name"]
    assert name.startswith("thing-")
    assert plugin.check(config(None), name="thing")["metadata"]["name"] == name, "preview and update agree"
    assert plugin.check(config(None), name="thing", seed=b"2")["metadata"]["name"] != name
    assert plugin.check(config(None, k="w"), checked, seed=b"3")["metadata"]["name"] == name, (
        "it keeps its name"
    )
    plugin.create(checked)
    assert live("configmap", name)["data"] == {"k": "v"}


def test_a_given_name_stays(plugin: Plugin):
    assert plugin.check(config("mine"))["metadata"]["name"] == "mine"


def test_generate_name_is_left_to_the_server(plugin: Plugin, namespace: str):
    id, _, outputs = plugin.make({**config(None), "metadata": {"generateName": "gen-"}})
    assert id == f"{namespace}/{outputs['metadata']['name']}"
    assert outputs["metadata"]["name"].startswith("gen-")


# Provider arguments


def test_objects_without_a_namespace_get_the_providers(plugin: Plugin, namespace: str):
    assert plugin.check(config())["metadata"]["namespace"] == namespace
    cluster_wide = manifest("Namespace", {"name": "x"})
    assert "namespace" not in plugin.check(cluster_wide)["metadata"]


def test_an_unknown_context_is_one_line(cluster: Access, start: Callable[..., Plugin]):
    with pytest.raises(grpc.RpcError) as raised:
        start().configure(kubeconfig=cluster.kubeconfig, context="nowhere")
    assert "nowhere" in str(raised.value.details())


# Preview


def test_a_preview_makes_nothing_and_does_not_know_what_the_server_adds(plugin: Plugin, live: Live):
    id, outputs = plugin.create(plugin.check(config()), preview=True)
    assert id == ""
    assert outputs["metadata"]["uid"] is UNKNOWN
    assert outputs["status"] is UNKNOWN
    assert outputs["data"] == {"k": "v"}
    assert live("configmap", "it") == {}


def test_a_preview_carries_unknown_inputs_through(plugin: Plugin):
    checked = plugin.check({**config(), "data": {"k": UNKNOWN}})
    assert checked["data"] == {"k": UNKNOWN}
    assert plugin.create(checked, preview=True)[1]["data"] == {"k": UNKNOWN}
    assert plugin.diff(plugin.check(config()), checked).changes == 2


def test_a_preview_with_an_unknown_kubeconfig_asks_no_server(start: Callable[..., Plugin]):
    plugin = start().configure(kubeconfig=UNKNOWN)
    assert plugin.create(plugin.check(config()), preview=True)[1]["data"] == {"k": "v"}


def test_a_preview_refuses_what_the_server_would(plugin: Plugin):
    bad = manifest("Pod", {"name": "it"}, spec={"containers": [{"name": "NOT VALID", "image": "x"}]})
    with pytest.raises(grpc.RpcError, match="NOT VALID"):
        plugin.create(plugin.check(bad), preview=True)


def test_a_preview_accepts_a_namespace_that_is_yet_to_come(plugin: Plugin):
    plugin.create({**config(), "metadata": {"name": "it", "namespace": "yet-to-come"}}, preview=True)


def test_a_preview_of_an_update_changes_nothing(plugin: Plugin, live: Live):
    id, inputs, outputs = plugin.make(pod())
    labelled = {**inputs, "metadata": {**inputs["metadata"], "labels": {"a": "b"}}}
    assert plugin.update(id, outputs, labelled, preview=True)["metadata"]["labels"] == {"a": "b"}
    assert "labels" not in live("pod", "it")["metadata"]


# Secrets


def test_secrets_reach_the_cluster_plain_and_come_back_secret(plugin: Plugin, live: Live):
    env = [{"name": "OPEN", "value": "seen"}, {"name": "TOKEN", "value": Secret("hidden")}]
    _, inputs, outputs = plugin.make(pod(containers=[{"name": "c", "image": "x", "env": env}]))
    assert live("pod", "it")["spec"]["containers"][0]["env"] == plain(env)
    for each in (inputs, outputs):
        assert each["spec"]["containers"][0]["env"] == env


def test_the_contents_of_a_secret_are_always_secret(plugin: Plugin, live: Live):
    _, inputs, outputs = plugin.make(manifest("Secret", {"name": "it"}, stringData={"k": "hidden"}))
    assert live("secret", "it")["data"] == {"k": "aGlkZGVu"}
    assert inputs["stringData"] == Secret({"k": "hidden"})
    assert outputs["data"] == Secret({"k": "aGlkZGVu"})


# Differences


def test_no_change_is_no_difference(plugin: Plugin):
    checked = plugin.check(pod())
    assert plugin.diff(checked, plugin.check(pod(), checked)).changes == 1


def test_a_change_the_server_takes_is_an_update(plugin: Plugin):
    found = plugin.diff(
        pod(), {**pod(), "metadata": {"name": "it", "annotations": UID, "labels": {"a": "b"}}}
    )
    assert (list(found.replaces), found.deleteBeforeReplace) == ([], False)
    assert list(found.detailedDiff) == ["metadata.labels"]


def test_an_immutable_field_of_a_named_pod_means_delete_then_create(plugin: Plugin):
    found = plugin.diff(pod(), pod(containers=[{"name": "c", "image": "none:2"}]))
    assert list(found.replaces) == ["spec.containers[0].image"]
    assert found.deleteBeforeReplace


def test_an_autonamed_object_is_replaced_create_first(plugin: Plugin):
    old = plugin.check(config(None))
    found = plugin.diff(old, plugin.check(config(None, k="w"), old))
    assert list(found.replaces) == ["data.k"]
    assert not found.deleteBeforeReplace


def test_a_new_name_is_a_new_object(plugin: Plugin):
    found = plugin.diff(config("one"), config("two"))
    assert list(found.replaces) == ["metadata.name"]
    assert not found.deleteBeforeReplace


def test_config_maps_change_in_place_when_the_provider_says_so(cluster: Access, start: Callable[..., Plugin]):
    plugin = start().configure(kubeconfig=cluster.kubeconfig, enableConfigMapMutable="true")
    found = plugin.diff(config(), config(k="w"))
    assert (found.changes, list(found.replaces)) == (2, [])


# Update


def test_an_update_sets_and_removes_and_leaves_what_others_set(
    plugin: Plugin, live: Live, kubectl: Any, namespace: str
):
    first = {**config(), "metadata": {"name": "it", "labels": {"a": "1", "b": "1"}}}
    id, _, outputs = plugin.make(first)
    kubectl("-n", namespace, "label", "configmap", "it", "other=1")
    second = plugin.check({**config(), "metadata": {"name": "it", "labels": {"a": "2"}}})
    plugin.update(id, outputs, second)
    assert live("configmap", "it")["metadata"]["labels"] == {"a": "2", "other": "1"}


def conflict(kubectl: Any, namespace: str) -> None:
    body = {**config(k="theirs"), "metadata": {"name": "it", "namespace": namespace}}
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(body))


def test_a_field_that_another_took_over_is_a_conflict(
    plugin: Plugin, live: Live, kubectl: Any, namespace: str
):
    id, _, outputs = plugin.make(config())
    conflict(kubectl, namespace)
    with pytest.raises(grpc.RpcError, match=r"conflict.*\.data\.k"):
        plugin.update(id, outputs, plugin.check(config(k="ours")))
    assert live("configmap", "it")["data"] == {"k": "theirs"}


def test_patch_force_takes_it_back(plugin: Plugin, live: Live, kubectl: Any, namespace: str):
    id, _, outputs = plugin.make(config())
    conflict(kubectl, namespace)
    forced = {
        **config(k="ours"),
        "metadata": {"name": "it", "annotations": {"pulumi.com/patchForce": "true"}},
    }
    plugin.update(id, outputs, plugin.check(forced))
    assert live("configmap", "it")["data"] == {"k": "ours"}


@pytest.mark.parametrize("again", [False, True], ids=["gone", "another of the name"])
def test_an_update_never_touches_another_object(
    plugin: Plugin, live: Live, kubectl: Any, namespace: str, again: bool
):
    id, _, outputs = plugin.make(config())
    kubectl("-n", namespace, "delete", "configmap", "it")
    if again:
        kubectl("-n", namespace, "create", "configmap", "it", "--from-literal=k=theirs")
    with pytest.raises(grpc.RpcError, match="refresh"):
        plugin.update(id, outputs, plugin.check(config(k="ours")))
    assert live("configmap", "it").get("data") == ({"k": "theirs"} if again else None)


# Create


def test_what_exists_is_not_taken_over(plugin: Plugin, live: Live, kubectl: Any, namespace: str):
    kubectl("-n", namespace, "create", "configmap", "it", "--from-literal=k=theirs")
    with pytest.raises(grpc.RpcError, match="already exists"):
        plugin.create(plugin.check(config()))
    assert live("configmap", "it")["data"] == {"k": "theirs"}


def test_unless_the_provider_may(cluster: Access, start: Any, namespace: str, kubectl: Any, live: Live):
    kubectl("-n", namespace, "create", "configmap", "it", "--from-literal=other=theirs")
    plugin = start().configure(
        kubeconfig=cluster.kubeconfig, namespace=namespace, upsertExistingObjects="true"
    )
    plugin.create(plugin.check(config()))
    assert live("configmap", "it")["data"] == {"k": "v", "other": "theirs"}


def test_a_kind_the_server_lacks_is_named(plugin: Plugin):
    with pytest.raises(grpc.RpcError, match="Unicorn"):
        plugin.create(manifest("Unicorn", {"name": "it"}, version="myth.example.com/v1"))


# Read


def test_what_is_gone_has_no_identity(plugin: Plugin, namespace: str):
    assert plugin.read(f"{namespace}/it", "core/v1:ConfigMap")[0] == ""


def test_a_read_shows_what_others_changed(plugin: Plugin, kubectl: Any, namespace: str):
    id, inputs, outputs = plugin.make(config())
    kubectl("-n", namespace, "patch", "configmap", "it", "-p", '{"data": {"k": "theirs", "more": "1"}}')
    _, now, drifted = plugin.read(id, "core/v1:ConfigMap", outputs, inputs)
    assert now["data"] == {"k": "theirs", "more": "1"}
    assert drifted["data"] == {"k": "theirs"}
    assert plugin.diff(drifted, inputs).changes == 2


def test_a_read_of_the_unchanged_is_no_difference(plugin: Plugin):
    id, inputs, outputs = plugin.make(pod())
    assert plugin.read(id, "core/v1:Pod", outputs, inputs)[2] == inputs


def test_an_import_takes_its_inputs_from_the_cluster(
    plugin: Plugin, kubectl: Any, namespace: str, live: Live
):
    kubectl("-n", namespace, "create", "configmap", "it", "--from-literal=k=v")
    id, outputs, inputs = plugin.read(f"{namespace}/it", "core/v1:ConfigMap")
    assert inputs == plugin.check(config())
    plugin.update(id, outputs, {**inputs, "metadata": {**inputs["metadata"], "labels": {"a": "b"}}})
    assert live("configmap", "it")["metadata"]["labels"] == {"a": "b"}


# Delete


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


# Waiting


def test_wait_for_the_uid_skips_readiness(plugin: Plugin):
    started = time.monotonic()
    plugin.make(pod())
    assert time.monotonic() - started < 2


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
