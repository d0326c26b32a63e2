"""A scripted API server that holds a few objects, and the record of an experiment in it."""

from __future__ import annotations

from typing import Any

from symphony.backends.observe import Recorded
from tests.backends.kubernetes.scripted_api import MISSING, Answer, Api, Asked, namespace

OWNER = "symphony/rl#1"
SPACE = "/api/v1/namespaces/rl"
KINDS = ["pods", "services", "configmaps", "secrets", "jobs", "serviceaccounts", "roles", "rolebindings"]


class Cluster:
    """Objects by their path in the API; the path above them gives their list."""

    def __init__(self, objects: dict[str, dict[str, Any]] | None = None, status: int = 200) -> None:
        self.objects = objects or {}
        self.status = status
        self.system = namespace("kube-system", "ours")
        self.system_status = 200

    def __call__(self, asked: Asked) -> Answer:
        path = asked.path.partition("?")[0]
        if self.status != 200:
            return self.status, {"message": "no"}
        if asked.verb == "DELETE":
            # Only the tests of deletions by uid look at what is left.
            if asked.body is not None and "preconditions" in asked.body:
                assert self.objects.pop(path)["metadata"]["uid"] == asked.body["preconditions"]["uid"]
            return 200, {}
        if path.endswith("/namespaces/kube-system"):
            return self.system_status, self.system
        if path in self.objects:
            return 200, self.objects[path]
        below = [each for place, each in self.objects.items() if place.rpartition("/")[0] == path]
        is_list = path.rpartition("/")[2] in KINDS
        return (200, {"items": below}) if below or is_list else MISSING


def recorded(api: Api, **more: Any) -> Recorded:
    connection = {"kubeconfig": api.kubeconfig(), "context": "c", "clusterIdentifier": "ours", **more}
    return Recorded(
        OWNER, "rl", {"a": {"pod_name": "a", "container_name": "a", "uid": "p"}}, connection=connection
    )
