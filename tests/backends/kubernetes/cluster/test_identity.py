"""Commands check that they reach the recorded cluster and namespace (scripted API server)."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec.structs import replace

from symphony.backends.access import Streams
from symphony.backends.kubernetes import access, identity, inventory, observe
from symphony.backends.kubernetes.api.client import Forbidden, Refused
from symphony.backends.kubernetes.manifests import labels
from symphony.engine.state.file_store import Resource
from symphony.errors import SymphonyError, UserError
from tests.backends.kubernetes.cluster.scripted_cluster import OWNER, SPACE, Cluster, recorded
from tests.backends.kubernetes.scripted_api import namespace, serving, thing

ENCRYPTED = "{'4dabf18193072939515e22adb298388d': '1b47', 'ciphertext': 'v1:x'}"


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_a_server_error_is_not_reported_as_a_different_cluster(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("symphony.backends.kubernetes.api.client.PATIENCE", 0)
    with serving(Cluster(status=status)) as api:
        with pytest.raises(Refused):
            inventory.identifier(api.client())
        with pytest.raises(Refused) as error:
            observe.delete_owned(OWNER, "rl", recorded(api))
        assert "another cluster" not in str(error.value)
        assert "stack rm" not in str(error.value)
        (result,) = observe.statuses([recorded(api)])
        assert isinstance(result, Refused)


def test_a_user_without_rights_on_kube_system_is_recognized_in_the_same_cluster() -> None:
    """The namespace's own objects identify the cluster then."""
    pod = {f"{SPACE}/pods/a": thing("Pod", "a", "p")}
    file = {f"{SPACE}/configmaps/symphony-services": thing("ConfigMap", "symphony-services", "7")}
    for objects in (pod, file):
        with serving(Cluster(objects)) as api:
            state = replace(
                recorded(api, clusterIdentifier="seen by another"), objects=dict.fromkeys(file, "7")
            )
            assert identity.client_for(state)
    theirs = {f"{SPACE}/pods/a": thing("Pod", "a", "of another cluster")}
    with serving(Cluster(theirs)) as api, pytest.raises(UserError, match="another cluster"):
        identity.client_for(recorded(api, clusterIdentifier="seen by another"))


def test_a_user_who_may_see_nothing_is_not_told_to_forget_the_experiment() -> None:
    with serving(Cluster(status=403)) as api, pytest.raises(Forbidden) as error:
        identity.client_for(recorded(api))
    assert "another cluster" not in str(error.value)


def test_the_cluster_identifier_does_not_depend_on_the_rights_of_the_user() -> None:
    there = {
        f"{SPACE}/configmaps/kube-root-ca.crt": thing("ConfigMap", "kube-root-ca.crt", "of the namespace")
    }
    for status in (200, 403):
        cluster = Cluster(there)
        cluster.system_status = status
        with serving(cluster) as api:
            assert inventory.identifier(api.client(), "rl") == "of the namespace"
            assert inventory.identifier(api.client()) == ("ours" if status == 200 else api.url)


def test_an_own_namespace_keeps_the_identifier_that_its_creator_read() -> None:
    """With another one, the engine replaced the namespace and every pod of a running experiment."""
    space = thing("Namespace", "rl", owner="p/rl#1")
    space["metadata"]["annotations"][labels.CLUSTER] = "as an administrator"
    for there, expected in (({SPACE: space}, "as an administrator"), ({}, "")):
        cluster = Cluster(there)
        cluster.system_status = 403
        with serving(cluster) as api:
            assert inventory.recorded_identifier(api.client(), "rl") == (expected or api.url)


def test_an_unavailable_server_is_an_error_only_if_connection_settings_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("symphony.backends.kubernetes.api.client.PATIENCE", 0)
    with serving(Cluster(status=503)) as api:
        observe.ensure_same_location(recorded(api), "rl")
        with pytest.raises(Refused):
            observe.ensure_same_location(recorded(api), "rl", {})


def test_a_wrong_kubeconfig_path_can_be_corrected_later() -> None:
    system = {"/api/v1/namespaces/kube-system": namespace("kube-system", "ours")}
    with serving(Cluster(system)) as api:
        before = recorded(api, kubeconfig="/nowhere/kubeconfig")
        with pytest.raises(UserError):
            observe.ensure_same_location(before, "rl", {"kubeconfig": "/nowhere/kubeconfig"})
        result = observe.ensure_same_location(before, "rl", {"kubeconfig": api.kubeconfig()})
        assert observe.restart_reasons(result) == {"a": "its pod no longer exists"}, (
            "the plan uses the new kubeconfig"
        )
        another = recorded(api, kubeconfig="/nowhere/kubeconfig", clusterIdentifier="another")
        with pytest.raises(UserError):
            observe.ensure_same_location(another, "rl", {"kubeconfig": api.kubeconfig()})


def test_new_settings_cannot_move_an_experiment_to_another_cluster() -> None:
    theirs = Cluster()
    theirs.system = namespace("kube-system", "theirs")
    with serving(Cluster()) as here, serving(theirs) as there:
        before = recorded(here, clusterIdentifier="ours", context="c")
        connection = {"kubeconfig": there.kubeconfig("b"), "context": "b"}
        with pytest.raises(UserError) as error:
            observe.ensure_same_location(before, "rl", connection)
        assert "rl runs in the cluster of context c, but its settings name context b" in error.value.line
        assert "to move it, run `symphony delete rl` first" in error.value.remedy
        assert there.url not in error.value.line, "a kubeconfig given as text is not quoted"
        same = {"kubeconfig": here.kubeconfig("renamed"), "context": "renamed"}
        assert observe.ensure_same_location(before, "rl", same).connection["context"] == "renamed"


def test_a_renamed_context_of_the_same_cluster_is_named_instead_of_pulumi_stack_rm() -> None:
    """`stack rm --force` would leave the pods running without a stack."""
    with serving(Cluster()) as api:
        state = recorded(api, kubeconfig=api.kubeconfig("renamed"))
        with pytest.raises(UserError, match='no context "c"') as error:
            identity.client_for(state)
        assert "kubernetes:context: renamed" in error.value.remedy
        assert "stack rm" not in error.value.remedy
        state = recorded(api, kubeconfig=api.kubeconfig("renamed"), clusterIdentifier="another")
        with pytest.raises(UserError) as error:
            identity.client_for(state)
        assert "stack rm" in error.value.remedy


def test_the_error_for_a_vanished_cluster_suggests_pulumi_stack_rm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symphony.backends.kubernetes.api.client.PATIENCE", 0)
    forget = "pulumi stack rm rl --force --preserve-config` forgets the experiment"
    with serving(Cluster()) as api:
        before = recorded(api, clusterIdentifier="")
        with pytest.raises(UserError) as error:
            observe.ensure_reachable(recorded(api, context="deleted", clusterIdentifier=""))
        assert forget in error.value.remedy
    with pytest.raises(SymphonyError) as silent:
        observe.ensure_reachable(before)
    assert forget in silent.value.remedy
    with pytest.raises(SymphonyError) as pinned:
        observe.ensure_reachable(recorded(api, context=""))
    assert forget in pinned.value.remedy
    assert "; if" not in f"{error.value.line}{pinned.value.line}"


TERMINATING = thing("Namespace", "rl", "1", OWNER, status={"phase": "Terminating"})
TERMINATING["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("existing", "create", "remedy"),
    [
        (TERMINATING, True, "wait until it is deleted"),
        (namespace("rl"), True, "set symphony:createNamespace to false if an administrator created it"),
        (namespace("rl", owner="symphony/other#1"), True, "rename the stack"),
        (None, False, "ask an administrator to create it, or remove symphony:createNamespace"),
        (namespace("rl", owner=OWNER), False, "remove symphony:createNamespace"),
        (namespace("rl", owner="symphony/other#1"), False, "set symphony:namespace to another"),
    ],
)
def test_each_namespace_conflict_has_a_remedy(existing: Any, create: bool, remedy: str) -> None:
    with serving(Cluster({SPACE: existing} if existing else {})) as api:
        result = inventory.namespace_conflict(api.client(), "rl", OWNER, create=create)
    assert result is not None
    assert remedy in result[1]


def test_exec_into_a_pod_that_waits_points_to_why() -> None:
    waits = {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}
    result = thing("Pod", "a", "p", OWNER, spec={"containers": [{"name": "a", "image": "x"}]})
    result["status"] = {"containerStatuses": [{"name": "a", "state": waits}]}
    with serving(Cluster({f"{SPACE}/pods/a": result})) as api, pytest.raises(SymphonyError) as error:
        access.execute(recorded(api), "a", ["true"], Streams(0, 1, 2))
    assert error.value.remedy == "`symphony why rl a` explains that state"


def test_server_time_follows_the_clock_of_the_api_server() -> None:
    with serving(Cluster({"/version": {}})) as api:
        client = api.client()
        assert client.clock_skew == 0
        client.get("/version")
        assert client.clock_skew == 0, "under 3 s is no skew: Date has whole seconds"
        api.ahead = -300
        client.get("/version")
        assert -303 < client.clock_skew < -297
        assert inventory.server_time(client) == pytest.approx(time.time() - 300, abs=3)


def test_nothing_is_deleted_in_a_namespace_another_user_recreated() -> None:
    theirs = Cluster({SPACE: namespace("rl", "theirs"), f"{SPACE}/pods/a": thing("Pod", "a", "x")})
    with serving(theirs) as api:
        ours = recorded(api, **{identity.NAMESPACE: "ours-that-was"})
        with pytest.raises(UserError, match="the namespace rl does not belong to rl") as error:
            observe.ensure_same_location(ours, "rl")
        assert "pulumi stack rm rl --force --preserve-config`" in error.value.remedy
        observe.terminate_early(ours)
        observe.delete_owned(OWNER, "rl", ours)
        assert api.paths("DELETE") == []


@pytest.mark.parametrize(
    "live",
    [
        namespace("rl", "ours-that-was"),
        namespace("rl", "made again by a killed up", OWNER),
        namespace("rl", "ours-that-was", "another/rl#2"),
    ],
    ids=["its notes were taken off", "made again", "its notes were changed"],
)
def test_our_own_namespace_is_accepted(live: dict[str, Any]) -> None:
    with serving(Cluster({SPACE: live})) as api:
        observe.ensure_same_location(recorded(api, **{identity.NAMESPACE: "ours-that-was"}), "rl")


def test_a_foreign_pod_with_our_name_is_refused_in_a_shared_namespace() -> None:
    words = "the pod a in namespace rl does not belong to rl"
    theirs = {f"{SPACE}/pods/a": thing("Pod", "a", "theirs")}
    with serving(Cluster(theirs)) as api, pytest.raises(UserError, match=words):
        observe.ensure_same_location(recorded(api), "rl")
    with serving(Cluster({f"{SPACE}/pods/a": thing("Pod", "a", "p")})) as api:
        observe.ensure_same_location(recorded(api), "rl")


THINGS = {"services": "greetings", "configmaps": "symphony-services", "secrets": "symphony-secrets"}


@pytest.mark.parametrize("kind", THINGS)
def test_delete_refuses_objects_recreated_by_another_user(kind: str) -> None:
    places = {f"{SPACE}/{each}/{name}": "ours" for each, name in THINGS.items()}
    ours = {place: thing("x", place.rpartition("/")[2], "ours") for place in places}
    place, words = (
        f"{SPACE}/{kind}/{THINGS[kind]}",
        f"the {kind[:-1]} {THINGS[kind]} in namespace rl does not belong",
    )
    theirs = {**ours, place: thing("x", THINGS[kind], "theirs")}
    again = {**ours, place: thing("x", THINGS[kind], "made again by a killed up", OWNER)}
    version = {"/version": {}}
    with serving(Cluster({**version, **theirs})) as api:
        state = replace(recorded(api), objects=places)
        with pytest.raises(UserError, match=words) as error:
            observe.ensure_reachable(state)
        assert "pulumi stack rm rl --force --preserve-config`" in error.value.remedy
        # A namespace of the experiment is deleted as a whole, and was checked before.
        observe.ensure_reachable(replace(state, connection={**state.connection, identity.NAMESPACE: "ours"}))
    for objects in (ours, again, {}):
        with serving(Cluster({**version, **objects})) as api:
            observe.ensure_reachable(replace(recorded(api), objects=places))


def test_object_uids_are_read_from_the_state() -> None:
    metadata = {"name": "greetings", "namespace": "rl", "labels": {labels.MANAGED_BY: labels.SYMPHONY}}
    inputs, outputs = {"metadata": metadata}, {"metadata": {**metadata, "uid": "7"}}
    pod = {"metadata": {**metadata, "name": "a"}, "spec": {"containers": []}}
    result = observe.recorded(
        OWNER,
        [
            Resource("urn:a", "kubernetes:core/v1:Service", "", "", inputs, outputs, ""),
            Resource("urn:b", "kubernetes:core/v1:Pod", "", "", pod, pod, ""),
        ],
    )
    assert result is not None
    assert result.objects == {f"{SPACE}/services/greetings": "7"}


class TestTextOfAKubeconfig:
    """The kubeconfig is encrypted in the state, so that only `up` can read it."""

    @pytest.fixture(autouse=True)
    def own(self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
        file = tmp_path / "own"
        monkeypatch.setenv("KUBECONFIG", str(file))
        identity.client_of.cache_clear()
        yield file
        identity.client_of.cache_clear()

    def test_error_says_the_users_own_kubeconfig_lacks_the_context(self, own: Any) -> None:
        with serving(Cluster()) as api:
            own.write_text(api.kubeconfig("another"))
            with pytest.raises(UserError, match='no context "c"') as error:
                observe.ensure_same_location(recorded(api, kubeconfig=ENCRYPTED), "rl")
            assert "is encrypted in its state, so symphony uses your default kubeconfig" in error.value.remedy

    def test_error_says_the_users_own_kubeconfig_points_to_another_cluster(self, own: Any) -> None:
        with serving(Cluster()) as api:
            own.write_text(api.kubeconfig())
            observe.ensure_same_location(recorded(api, kubeconfig=ENCRYPTED), "rl")
            other = recorded(api, kubeconfig=ENCRYPTED, clusterIdentifier="other")
            with pytest.raises(UserError, match="context c of your default kubeconfig") as error:
                observe.ensure_same_location(other, "rl")
            assert "is encrypted" in error.value.remedy

    def test_a_kubeconfig_in_json_is_not_mistaken_for_an_encrypted_one(self) -> None:
        import json

        import yaml

        with serving(Cluster()) as api:
            result = json.dumps(yaml.safe_load(api.kubeconfig()))
            assert identity.client_for(recorded(api, kubeconfig=result)).access.server == api.url
