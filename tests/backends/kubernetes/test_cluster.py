"""What is asked of a cluster before it is changed, with an API server that says what a test tells it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from symphony.backends.access import Streams
from symphony.backends.kubernetes import access, observe
from symphony.backends.kubernetes.api.client import Refused
from symphony.backends.kubernetes.cluster import identity, inventory
from symphony.backends.kubernetes.manifests import labels
from symphony.backends.observe import Recorded
from symphony.engine.state.file_store import Resource
from symphony.errors import SymphonyError, UserError
from tests.backends.kubernetes.api import MISSING, Answer, Api, Asked, namespace, serving, thing

OWNER = "symphony/rl#1"
SPACE = "/api/v1/namespaces/rl"
ENCRYPTED = "{'4dabf18193072939515e22adb298388d': '1b47', 'ciphertext': 'v1:x'}"


class Cluster:
    """Objects by the path at which they are; a list of them at the path before."""

    def __init__(self, things: dict[str, dict[str, Any]] | None = None, status: int = 200) -> None:
        self.things = things or {}
        self.status = status
        self.system = namespace("kube-system", "ours")

    def __call__(self, asked: Asked) -> Answer:
        path = asked.path.partition("?")[0]
        if self.status != 200:
            return self.status, {"message": "no"}
        if asked.verb == "DELETE":
            if asked.body is not None and "preconditions" in asked.body:
                assert self.things.pop(path)["metadata"]["uid"] == asked.body["preconditions"]["uid"]
            return 200, {}
        if path.endswith("/namespaces/kube-system"):
            return 200, self.system
        if path in self.things:
            return 200, self.things[path]
        below = [each for place, each in self.things.items() if place.rpartition("/")[0] == path]
        is_list = path.rpartition("/")[2] in ("pods", "services", "jobs", "jobsets")
        return (200, {"items": below}) if below or is_list else MISSING


def recorded(api: Api, **more: Any) -> Recorded:
    reach = {"kubeconfig": api.kubeconfig(), "context": "c", "clusterIdentifier": "ours", **more}
    return Recorded(OWNER, "rl", {"a": {"pod_name": "a", "container_name": "a", "uid": "p"}}, reach=reach)


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_a_server_that_does_not_say_who_it_is_is_no_other_cluster(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("symphony.backends.kubernetes.api.client.PATIENCE", 0)
    with serving(Cluster(status=status)) as api:
        with pytest.raises(Refused):
            inventory.identifier(api.client())
        with pytest.raises(Refused) as error:
            observe.delete_orphans(OWNER, "rl", recorded(api))
        assert "another cluster" not in str(error.value)
        assert "stack rm" not in str(error.value)
        (found,) = observe.statuses([recorded(api)])
        assert isinstance(found, Refused)


def test_who_may_not_look_tells_clusters_apart_by_their_address() -> None:
    with serving(Cluster(status=403)) as api:
        assert inventory.identifier(api.client()) == api.url


def test_a_token_that_ended_after_up_is_said_by_every_command() -> None:
    with serving(Cluster(status=401)) as api:
        for reach in (None, {"context": "c"}):
            with pytest.raises(Refused, match="does not know who you are") as error:
                observe.ensure_same_location(recorded(api), "rl", reach)
            assert error.value.remedy == "Log in again"


def test_a_server_that_is_away_leaves_the_word_to_what_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symphony.backends.kubernetes.api.client.PATIENCE", 0)
    with serving(Cluster(status=503)) as api:
        observe.ensure_same_location(recorded(api), "rl")
        with pytest.raises(Refused):
            observe.ensure_same_location(recorded(api), "rl", {})


def test_a_kubeconfig_that_led_nowhere_may_be_corrected() -> None:
    system = {"/api/v1/namespaces/kube-system": namespace("kube-system", "ours")}
    with serving(Cluster(system)) as api:
        before = recorded(api, kubeconfig="/nowhere/kubeconfig")
        with pytest.raises(UserError):
            observe.ensure_same_location(before, "rl", {"kubeconfig": "/nowhere/kubeconfig"})
        found = observe.ensure_same_location(before, "rl", {"kubeconfig": api.kubeconfig()})
        assert observe.restart_reasons(found) == {"a": "its pod is gone"}, "the plan asks by the new way"
        another = recorded(api, kubeconfig="/nowhere/kubeconfig", clusterIdentifier="another")
        with pytest.raises(UserError):
            observe.ensure_same_location(another, "rl", {"kubeconfig": api.kubeconfig()})


def test_f75_settings_that_name_another_cluster_move_nothing() -> None:
    theirs = Cluster()
    theirs.system = namespace("kube-system", "theirs")
    with serving(Cluster()) as here, serving(theirs) as there:
        before = recorded(here, clusterIdentifier="ours", context="c")
        reach = {"kubeconfig": there.kubeconfig("b"), "context": "b"}
        with pytest.raises(UserError) as error:
            observe.ensure_same_location(before, "rl", reach)
        assert "rl runs in the cluster of context c, and its settings name context b" in error.value.line
        assert "`symphony delete rl` ends it there" in error.value.remedy
        assert there.url not in error.value.line, "nothing of a kubeconfig that is a text"
        same = {"kubeconfig": here.kubeconfig("renamed"), "context": "renamed"}
        assert observe.ensure_same_location(before, "rl", same).reach["context"] == "renamed"


def test_how_to_let_go_of_a_cluster_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symphony.backends.kubernetes.api.client.PATIENCE", 0)
    forget = "gone for good, `pulumi stack rm rl --force` forgets the experiment"
    with serving(Cluster()) as api:
        before = recorded(api, clusterIdentifier="")
        with pytest.raises(UserError) as error:
            observe.ensure_reachable(recorded(api, context="deleted"))
        assert forget in error.value.remedy
    with pytest.raises(SymphonyError) as silent:
        observe.ensure_reachable(before)
    assert forget in silent.value.remedy
    with pytest.raises(SymphonyError) as pinned:
        observe.ensure_reachable(recorded(api, context=""))
    assert forget in pinned.value.remedy
    assert "; if" not in f"{error.value.line}{pinned.value.line}"


@pytest.mark.parametrize(
    ("there", "create", "remedy"),
    [
        (namespace("rl"), True, "set symphony:createNamespace to false if it was made for you"),
        (namespace("rl", owner="symphony/other#1"), True, "rename the stack"),
        (None, False, "have it created, or remove symphony:createNamespace"),
    ],
)
def test_a_namespace_that_cannot_be_had_has_a_remedy(there: Any, create: bool, remedy: str) -> None:
    with serving(Cluster({SPACE: there} if there else {})) as api:
        found = inventory.why_not_ours(api.client(), "rl", OWNER, create=create)
    assert found is not None
    assert remedy in found[1]


def test_who_may_not_enter_is_shown_why_it_does_not_run_by_the_name_of_its_stack() -> None:
    waits = {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}
    found = thing("Pod", "a", "p", OWNER, spec={"containers": [{"name": "a", "image": "x"}]})
    found["status"] = {"containerStatuses": [{"name": "a", "state": waits}]}
    with serving(Cluster({f"{SPACE}/pods/a": found})) as api, pytest.raises(SymphonyError) as error:
        access.execute(recorded(api), "a", ["true"], Streams(0, 1, 2))
    assert error.value.remedy == "`symphony why rl a` shows what keeps it"


def test_the_clock_of_the_server_is_asked_and_not_ours() -> None:
    with serving(Cluster({"/version": {}})) as api:
        client = api.client()
        assert client.ahead == 0
        client.get("/version")
        assert client.ahead == 0, "a second is nothing: it tells whole ones"
        api.ahead = -300
        client.get("/version")
        assert -303 < client.ahead < -297
        assert inventory.server_time(client) == pytest.approx(time.time() - 300, abs=3)


def test_s29_a_namespace_that_another_made_after_ours_was_gone_is_left_alone() -> None:
    theirs = Cluster({SPACE: namespace("rl", "theirs"), f"{SPACE}/pods/a": thing("Pod", "a", "x")})
    with serving(theirs) as api:
        ours = recorded(api, **{identity.NAMESPACE: "ours-that-was"})
        with pytest.raises(UserError, match="the namespace rl is not the one that rl made") as error:
            observe.ensure_same_location(ours, "rl")
        assert "`pulumi stack rm rl --force`" in error.value.remedy
        observe.terminate_early(ours)
        observe.delete_orphans(OWNER, "rl", ours)
        assert api.paths("DELETE") == []


@pytest.mark.parametrize(
    "live",
    [
        namespace("rl", "ours-that-was"),
        namespace("rl", "made anew by a killed up", OWNER),
        namespace("rl", "ours-that-was", "another/rl#2"),
    ],
    ids=["its notes were taken off", "made anew", "its notes were changed"],
)
def test_a_namespace_of_ours_is_not_refused(live: dict[str, Any]) -> None:
    with serving(Cluster({SPACE: live})) as api:
        observe.ensure_same_location(recorded(api, **{identity.NAMESPACE: "ours-that-was"}), "rl")


def test_s29_a_pod_that_another_made_in_a_shared_namespace_is_refused() -> None:
    words = "the pod a in namespace rl is not the one that rl made"
    theirs = {f"{SPACE}/pods/a": thing("Pod", "a", "theirs")}
    with serving(Cluster(theirs)) as api, pytest.raises(UserError, match=words):
        observe.ensure_same_location(recorded(api), "rl")
    with serving(Cluster({f"{SPACE}/pods/a": thing("Pod", "a", "p")})) as api:
        observe.ensure_same_location(recorded(api), "rl")


THINGS = {"services": "greetings", "configmaps": "symphony-services", "secrets": "symphony-secrets"}


@pytest.mark.parametrize("kind", THINGS)
def test_s29_what_another_made_anew_in_a_shared_namespace_is_not_deleted(kind: str) -> None:
    places = {f"{SPACE}/{each}/{name}": "ours" for each, name in THINGS.items()}
    ours = {place: thing("x", place.rpartition("/")[2], "ours") for place in places}
    place, words = f"{SPACE}/{kind}/{THINGS[kind]}", f"the {kind[:-1]} {THINGS[kind]} in namespace rl is not"
    theirs = {**ours, place: thing("x", THINGS[kind], "theirs")}
    again = {**ours, place: thing("x", THINGS[kind], "made anew by a killed up", OWNER)}
    version = {"/version": {}}
    with serving(Cluster({**version, **theirs})) as api:
        state = replace(recorded(api), things=places)
        with pytest.raises(UserError, match=words) as error:
            observe.ensure_reachable(state)
        assert "`pulumi stack rm rl --force`" in error.value.remedy
        # A namespace of its own goes as a whole, and was looked at before.
        observe.ensure_reachable(replace(state, reach={**state.reach, identity.NAMESPACE: "ours"}))
    for there in (ours, again, {}):
        with serving(Cluster({**version, **there})) as api:
            observe.ensure_reachable(replace(recorded(api), things=places))


def test_what_another_made_anew_is_known_by_what_the_state_says() -> None:
    metadata = {"name": "greetings", "namespace": "rl", "labels": {labels.MANAGED_BY: labels.SYMPHONY}}
    inputs, outputs = {"metadata": metadata}, {"metadata": {**metadata, "uid": "7"}}
    pod = {"metadata": {**metadata, "name": "a"}, "spec": {"containers": []}}
    found = observe.recorded(
        OWNER,
        [
            Resource("urn:a", "kubernetes:core/v1:Service", "", "", inputs, outputs, "", ""),
            Resource("urn:b", "kubernetes:core/v1:Pod", "", "", pod, pod, "", ""),
        ],
    )
    assert found is not None
    assert found.things == {f"{SPACE}/services/greetings": "7"}


def test_what_an_up_left_in_a_shared_namespace_goes_with_its_files() -> None:
    mine = {
        f"{SPACE}/pods/a": thing("Pod", "a", "1", OWNER),
        f"{SPACE}/secrets/symphony-secrets": thing("Secret", "symphony-secrets", "2", OWNER),
        f"{SPACE}/configmaps/symphony-configs": thing("ConfigMap", "symphony-configs", "3", OWNER),
        f"{SPACE}/configmaps/symphony-services": thing("ConfigMap", "symphony-services", "4", OWNER),
    }
    theirs = {
        SPACE: namespace("rl"),
        f"{SPACE}/pods/b": thing("Pod", "b", "5", "symphony/other#1"),
        f"{SPACE}/secrets/mine": thing("Secret", "mine", "6"),
    }
    there = Cluster({**mine, **theirs})
    with serving(there) as api:
        inventory.end_all(api.client(), "rl", OWNER)
        assert there.things == theirs
    there = Cluster({**mine, **theirs})
    planned = {"pods": ["a"], "configmaps": ["symphony-services"], "secrets": []}
    with serving(there) as api:
        client = api.client()
        inventory.end_strays(client, inventory.living(client, "rl"), "rl", OWNER, planned)
    assert set(mine) & set(there.things) == {f"{SPACE}/pods/a", f"{SPACE}/configmaps/symphony-services"}


def test_who_may_not_look_at_secrets_ends_the_rest() -> None:
    there = Cluster({f"{SPACE}/pods/a": thing("Pod", "a", "1", OWNER)})

    def answer(asked: Asked) -> Answer:
        return (403, {}) if "/secrets/" in asked.path or asked.path == SPACE else there(asked)

    with serving(answer) as api:
        inventory.end_all(api.client(), "rl", OWNER)
    assert there.things == {}


def test_all_that_others_have_is_refused_at_once() -> None:
    others: Callable[[str, str], dict[str, Any]] = lambda kind, name: thing(kind, name, "1", "x/other#1")  # noqa: E731
    there = Cluster(
        {
            **{f"{SPACE}/pods/p{i}": thing("Pod", f"p{i}", "1") for i in range(12)},
            f"{SPACE}/services/s": others("Service", "s"),
            f"{SPACE}/secrets/symphony-secrets": others("Secret", "symphony-secrets"),
        }
    )
    planned = {
        "pods": [f"p{i}" for i in range(12)],
        "services": ["s"],
        "keepers": [],
        "configmaps": ["symphony-services"],
        "secrets": ["symphony-secrets"],
    }
    with serving(there) as api:
        client = api.client()
        live = inventory.living(client, "rl")
        with pytest.raises(UserError) as error:
            inventory.refuse_others(client, live, "rl", OWNER, planned)
    pods, rest = error.value.what.split("; ")
    assert pods.startswith("the pod p0, the pod p1, ")
    assert pods.endswith("the pod p9 and 2 more in namespace rl belong to somebody else")
    assert rest == "the Service s, the secret symphony-secrets in namespace rl belong to x/other"


HELD = {
    "phase": "Terminating",
    "conditions": [
        {"type": "NamespaceContentRemaining", "status": "True", "message": "configmaps. has 1 resource"},
        {"type": "NamespaceDeletionContentFailure", "status": "False", "message": "all is well"},
    ],
}


def test_what_does_not_go_says_what_holds_it_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    going = thing("Namespace", "rl", "1", OWNER, status=HELD)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    monkeypatch.setattr(inventory, "GONE_DEADLINE", 0.0)
    with serving(lambda asked: Cluster({SPACE: dict(going)})(asked)) as api:
        with pytest.raises(SymphonyError, match="rl is not gone after 0 s: configmaps") as error:
            inventory.end_all(api.client(), "rl", OWNER)
        assert error.value.remedy
        assert observe.deletion_blockers(recorded(api)) == "configmaps. has 1 resource"
    with serving(Cluster({SPACE: namespace("rl", "1", OWNER)})) as api:
        assert observe.deletion_blockers(recorded(api)) == ""


class TestTextOfAKubeconfig:
    """Encrypted in the state, so that only `up` can read it."""

    @pytest.fixture(autouse=True)
    def own(self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
        file = tmp_path / "own"
        monkeypatch.setenv("KUBECONFIG", str(file))
        identity.client_of.cache_clear()
        yield file
        identity.client_of.cache_clear()

    def test_the_cause_is_told_when_the_users_own_has_no_such_context(self, own: Any) -> None:
        with serving(Cluster()) as api:
            own.write_text(api.kubeconfig("another"))
            with pytest.raises(UserError, match='no context "c"') as error:
                observe.ensure_same_location(recorded(api, kubeconfig=ENCRYPTED), "rl")
            assert "keeps encrypted, so your own kubeconfig is asked" in error.value.remedy

    def test_the_cause_is_told_when_it_means_another_cluster(self, own: Any) -> None:
        with serving(Cluster()) as api:
            own.write_text(api.kubeconfig())
            observe.ensure_same_location(recorded(api, kubeconfig=ENCRYPTED), "rl")
            other = recorded(api, kubeconfig=ENCRYPTED, clusterIdentifier="other")
            with pytest.raises(UserError, match="context c of your own kubeconfig") as error:
                observe.ensure_same_location(other, "rl")
            assert "keeps encrypted" in error.value.remedy

    def test_one_in_json_is_no_encrypted_one(self) -> None:
        import json

        import yaml

        with serving(Cluster()) as api:
            said = json.dumps(yaml.safe_load(api.kubeconfig()))
            assert identity.client_for(recorded(api, kubeconfig=said)).access.server == api.url


def test_a_pod_that_takes_its_grace_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may have minutes to save what it has; only what is late beyond them is an error."""
    clock = [0.0]
    monkeypatch.setattr(inventory.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(inventory.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + 10))
    pod = thing("Pod", "a", "1", OWNER)
    pod["metadata"]["deletionGracePeriodSeconds"] = 90
    place, gone_after = f"{SPACE}/pods/a", 140.0

    def answer(asked: Asked) -> Answer:
        return (200, pod) if asked.path == place and clock[0] < gone_after else MISSING

    with serving(answer) as api:
        inventory.await_gone(api.client(), place, "1")
        clock[0], gone_after = 0.0, 1000.0
        with pytest.raises(SymphonyError, match="a is not gone after 150 s"):
            inventory.await_gone(api.client(), place, "1")


def test_what_should_have_ended_on_a_machine_that_is_off_is_told_at_once() -> None:
    def dying(name: str, on: str, when: float, owner: str = OWNER, **more: Any) -> dict[str, Any]:
        pod = thing("Pod", name, name, owner)
        pod["metadata"] |= {"deletionTimestamp": datetime.fromtimestamp(when, UTC).isoformat(), **more}
        pod["spec"] = {"nodeName": on}
        return pod

    now = time.time()
    pods = [
        dying("late", "n1", now - 300),
        dying("soon", "n1", now + 5),
        dying("held", "n1", now - 300, finalizers=["x/y"]),
        dying("other", "n1", now - 300, "other/x#1"),
        dying("undeclared", "n1", now - 300),
        thing("Pod", "well", "2", OWNER),
    ]
    live = inventory.Living({pod["metadata"]["name"]: pod for pod in pods}, {}, {})
    declared = ["late", "soon", "held", "other", "well", "new"]
    with pytest.raises(UserError) as error:
        inventory.refuse_unending(live, OWNER, declared)
    assert error.value.line == (
        "asked to end, and has not: late on n1, which does not answer. "
        "If that machine is off for good: `kubectl delete node n1`, and try again."
    )
    inventory.refuse_unending(live, OWNER, declared[1:])
    # A laptop whose clock is three minutes ahead sees what ends in good time long overdue.
    behind = inventory.Living(live.pods, {}, {}, now=now - 250)
    inventory.refuse_unending(behind, OWNER, declared)
    # Of a Job; what counts its pods is no reason to wait.
    made = dying("trial-x7k2p", "n2", now - 300, finalizers=["batch.kubernetes.io/job-tracking"])
    of_job = inventory.Living({}, {}, {}, {"trial": made})
    with pytest.raises(UserError, match="trial on n2, which does not answer"):
        inventory.refuse_unending(of_job, OWNER, ["trial"])
