"""Objects of a namespace: which are deleted, which are refused as foreign, which block a deletion."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from symphony.backends.kubernetes import inventory, observe, supervisor
from symphony.backends.kubernetes.manifests import workloads
from symphony.errors import SymphonyError, UserError
from tests.backends.kubernetes.cluster.scripted_cluster import OWNER, SPACE, Cluster, recorded
from tests.backends.kubernetes.scripted_api import MISSING, Answer, Asked, namespace, serving, thing


def test_orphaned_pods_in_a_shared_namespace_are_deleted_with_their_secrets_and_config_maps() -> None:
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
    cluster = Cluster({**mine, **theirs})
    with serving(cluster) as api:
        inventory.end_all(api.client(), "rl", OWNER)
        assert cluster.objects == theirs
    cluster = Cluster({**mine, **theirs})
    planned = {"pods": ["a"], "configmaps": ["symphony-services"], "secrets": []}
    with serving(cluster) as api:
        client = api.client()
        inventory.end_orphans(client, inventory.read(client, "rl"), "rl", OWNER, planned, {})
    assert set(mine) & set(cluster.objects) == {f"{SPACE}/pods/a", f"{SPACE}/configmaps/symphony-services"}


def test_the_rights_of_a_supervisor_that_no_state_records_are_deleted() -> None:
    """A killed first `up` left them in a shared namespace."""
    rbac = SPACE.replace("/api/v1", "/apis/rbac.authorization.k8s.io/v1")
    mine = {
        f"{SPACE}/serviceaccounts/symphony": thing("ServiceAccount", "symphony", "1", OWNER),
        f"{rbac}/roles/symphony": thing("Role", "symphony", "2", OWNER),
        f"{rbac}/rolebindings/symphony": thing("RoleBinding", "symphony", "3", OWNER),
    }
    theirs = {SPACE: namespace("rl"), f"{rbac}/roles/x": thing("Role", "x", "4", "symphony/other#1")}
    cluster = Cluster({**mine, **theirs})
    with serving(cluster) as api:
        inventory.end_all(api.client(), "rl", OWNER)
    assert cluster.objects == theirs


def test_delete_without_rights_on_secrets_deletes_everything_else() -> None:
    cluster = Cluster({f"{SPACE}/pods/a": thing("Pod", "a", "1", OWNER)})

    def answer(asked: Asked) -> Answer:
        return (403, {}) if "/secrets/" in asked.path or asked.path == SPACE else cluster(asked)

    with serving(answer) as api:
        inventory.end_all(api.client(), "rl", OWNER)
    assert cluster.objects == {}


def test_one_error_lists_all_objects_of_other_owners() -> None:
    others: Callable[[str, str], dict[str, Any]] = lambda kind, name: thing(kind, name, "1", "x/other#1")  # noqa: E731
    cluster = Cluster(
        {
            **{f"{SPACE}/pods/p{i}": thing("Pod", f"p{i}", "1") for i in range(12)},
            f"{SPACE}/services/s": others("Service", "s"),
            f"{SPACE}/secrets/symphony-secrets": others("Secret", "symphony-secrets"),
        }
    )
    planned = {
        "pods": [f"p{i}" for i in range(12)],
        "services": ["s"],
        "jobs": [],
        "configmaps": ["symphony-services"],
        "secrets": ["symphony-secrets"],
    }
    with serving(cluster) as api:
        client = api.client()
        live = inventory.read(client, "rl")
        with pytest.raises(UserError) as error:
            inventory.refuse_foreign_objects(client, live, "rl", OWNER, planned)
    pods, rest = error.value.what.split("; ")
    assert pods.startswith("the pod p0, the pod p1, ")
    assert pods.endswith("the pod p9 and 2 more in namespace rl belong to another user or program")
    assert rest == "the Service s, the secret symphony-secrets in namespace rl belong to x/other"


HELD = {
    "phase": "Terminating",
    "conditions": [
        {"type": "NamespaceContentRemaining", "status": "True", "message": "configmaps. has 1 resource"},
        {"type": "NamespaceDeletionContentFailure", "status": "False", "message": "all is well"},
    ],
}


def test_a_blocked_namespace_deletion_names_what_blocks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    going = thing("Namespace", "rl", "1", OWNER, status=HELD)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    monkeypatch.setattr(inventory, "GONE_DEADLINE", 0.0)
    with serving(lambda asked: Cluster({SPACE: dict(going)})(asked)) as api:
        with pytest.raises(SymphonyError, match="rl still exists after 0 s: configmaps") as error:
            inventory.end_all(api.client(), "rl", OWNER)
        assert error.value.remedy
        assert observe.deletion_blockers(recorded(api)) == "configmaps. has 1 resource"
    with serving(Cluster({SPACE: namespace("rl", "1", OWNER)})) as api:
        assert observe.deletion_blockers(recorded(api)) == ""


def test_deletion_waits_for_the_grace_period_of_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error only if the pod still exists after its grace period and a margin."""
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
        with pytest.raises(SymphonyError, match="a still exists after 150 s"):
            inventory.await_gone(api.client(), place, "1")


def test_a_pod_stuck_on_a_dead_node_is_reported_without_waiting() -> None:
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
    live = inventory.Inventory({pod["metadata"]["name"]: pod for pod in pods}, {}, {})
    declared = ["late", "soon", "held", "other", "well", "new"]
    with pytest.raises(UserError) as error:
        inventory.refuse_stuck_pods(live, OWNER, declared)
    assert error.value.line == (
        "pods to replace are stuck in Terminating, and their nodes do not answer: late on n1. "
        "If the machines are lost for good, run `kubectl delete node n1`, then `up` again."
    )
    inventory.refuse_stuck_pods(live, OWNER, declared[1:])
    # For a laptop whose clock is four minutes ahead, a pod that ends in time looks overdue.
    behind = inventory.Inventory(live.pods, {}, {}, now=now - 250)
    inventory.refuse_stuck_pods(behind, OWNER, declared)
    # A pod of a Job: the finalizer of the Job controller is no reason to wait.
    made = dying("trial-x7k2p", "n2", now - 300, finalizers=["batch.kubernetes.io/job-tracking"])
    of_job = inventory.Inventory({}, {}, {}, {"trial": made})
    with pytest.raises(UserError, match="nodes do not answer: trial on n2"):
        inventory.refuse_stuck_pods(of_job, OWNER, ["trial"])


def test_a_job_whose_pod_was_stopped_starts_again_unless_its_experiment_completed() -> None:
    job = {**thing("Job", "train-0", "1", OWNER), "kind": workloads.JOB}

    def attempt(why: str) -> str:
        notes = {"metadata": {"annotations": {supervisor.STOPPED: why} if why else {}}}
        gate = {"schedulingGates": [{"name": supervisor.GATE}], "containers": [{"name": "train-0"}]}
        live = inventory.Inventory({}, {}, {"train-0": job}, {"train-0": {**notes, "spec": gate}})
        return inventory.attempt(live, OWNER, "train-0", workloads.JOB)

    assert attempt("") == attempt(supervisor.COMPLETED) == "1"
    assert int(attempt("stop_after: 8 h are over")) > 1
