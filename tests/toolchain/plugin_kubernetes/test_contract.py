"""The stand-in plugin does over a real API server what Pulumi's own documents; one test a behaviour."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from tests.toolchain.plugin_kubernetes.plugin_client import UID, Plugin, config, manifest, pod
from toolchain.kubernetes.fixtures import Access
from toolchain.plugin_kubernetes.provider import Provider
from toolchain.plugins.values import UNKNOWN, Secret, plain

pytestmark = pytest.mark.kubernetes

Live = Callable[[str, str], dict[str, Any]]


def test_it_says_that_it_is_a_stand_in(plugin: Plugin):
    assert Provider.notice in plugin.log()


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
    result = plugin.diff(
        pod(), {**pod(), "metadata": {"name": "it", "annotations": UID, "labels": {"a": "b"}}}
    )
    assert (list(result.replaces), result.deleteBeforeReplace) == ([], False)
    assert list(result.detailedDiff) == ["metadata.labels"]


def test_an_immutable_field_of_a_named_pod_means_delete_then_create(plugin: Plugin):
    result = plugin.diff(pod(), pod(containers=[{"name": "c", "image": "none:2"}]))
    assert list(result.replaces) == ["spec.containers[0].image"]
    assert result.deleteBeforeReplace


def test_an_autonamed_object_is_replaced_create_first(plugin: Plugin):
    old = plugin.check(config(None))
    result = plugin.diff(old, plugin.check(config(None, k="w"), old))
    assert list(result.replaces) == ["data.k"]
    assert not result.deleteBeforeReplace


def test_a_new_name_is_a_new_object(plugin: Plugin):
    result = plugin.diff(config("one"), config("two"))
    assert list(result.replaces) == ["metadata.name"]
    assert not result.deleteBeforeReplace


def test_config_maps_change_in_place_when_the_provider_says_so(cluster: Access, start: Callable[..., Plugin]):
    plugin = start().configure(kubeconfig=cluster.kubeconfig, enableConfigMapMutable="true")
    result = plugin.diff(config(), config(k="w"))
    assert (result.changes, list(result.replaces)) == (2, [])


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
