"""Random creates, updates, replacements and deletes leave the state and the cluster equal."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.toolchain.plugin_kubernetes.plugin_client import Plugin, manifest
from toolchain.plugins.values import plain

pytestmark = pytest.mark.kubernetes

ANNOTATIONS = {"pulumi.com/waitFor": "jsonpath={.metadata.uid}"}
LANES = 8


def body(rng: random.Random, kind: str, name: str, policy: str) -> dict[str, Any]:
    """An object of this name with contents of which some can change in place and some cannot."""
    labels = {f"l{number}": str(rng.randrange(3)) for number in rng.sample(range(4), rng.randrange(4))}
    metadata = {
        "name": name,
        "labels": {"test": "random", **labels},
        "annotations": {**ANNOTATIONS, "pulumi.com/deletionPropagationPolicy": policy},
    }
    if kind == "ConfigMap":
        return manifest(
            kind, metadata, data={f"k{number}": str(rng.random()) for number in range(rng.randrange(1, 4))}
        )
    if kind == "Service":
        ports = [{"name": f"p{number}", "port": number} for number in range(80, 81 + rng.randrange(3))]
        return manifest(kind, metadata, spec={"clusterIP": "None", "selector": {"a": name}, "ports": ports})
    container = {
        "name": "c",
        "image": f"none:{rng.randrange(3)}",
        "env": [{"name": "A", "value": str(rng.randrange(3))}],
    }
    # On no node: kwok deletes by name, and so at times the pod that has just taken the place of another.
    return manifest(kind, metadata, spec={"nodeSelector": {"no": "node"}, "containers": [container]})


class Lane:
    """One object after another, as the engine would do it; `state` is what the engine would keep."""

    def __init__(self, plugin: Plugin, number: int, policy: str = "foreground") -> None:
        self._policy = policy
        self._plugin = plugin
        self._rng = random.Random(number)
        self._number = number
        self.state: dict[tuple[str, str], tuple[str, dict[str, Any], dict[str, Any]]] = {}

    def run(self, steps: int) -> None:
        for _ in range(steps):
            kind = self._rng.choice(["ConfigMap", "Service", "Pod"])
            key = kind, f"n{self._number}-{self._rng.randrange(4)}"
            if key not in self.state:
                self.state[key] = self._plugin.make(body(self._rng, *key, self._policy))
            elif self._rng.random() < 0.4:
                self._delete(key)
            else:
                self._change(key)

    def _delete(self, key: tuple[str, str]) -> None:
        id, inputs, outputs = self.state.pop(key)
        self._plugin.delete(id, outputs, inputs)

    def _change(self, key: tuple[str, str]) -> None:
        id, inputs, outputs = self.state[key]
        new = self._plugin.check(body(self._rng, *key, self._policy), inputs)
        result = self._plugin.diff(inputs, new)
        if result.replaces:
            assert result.deleteBeforeReplace
            self._delete(key)
            made, outputs = self._plugin.create(new)
            self.state[key] = made, new, outputs
        elif result.changes == result.DIFF_SOME:
            self.state[key] = id, new, self._plugin.update(id, outputs, new)


def _token(kind: str) -> str:
    return f"core/v1:{kind}"


@pytest.mark.parametrize(
    "steps", [400, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
def test_state_and_cluster_stay_equal(plugin: Plugin, namespace: str, kubectl: Any, steps: int):
    lanes = [Lane(plugin, number) for number in range(LANES)]
    with ThreadPoolExecutor(LANES) as pool:
        list(pool.map(lambda lane: lane.run(steps // LANES), lanes))
    state = {key: entry for lane in lanes for key, entry in lane.state.items()}
    listed = kubectl("-n", namespace, "get", "configmap,service,pod", "-l", "test=random", "-o", "json")
    cluster = {(each["kind"], each["metadata"]["name"]): each for each in json.loads(listed)["items"]}
    assert cluster.keys() == state.keys()
    for key, (id, inputs, outputs) in state.items():
        assert cluster[key]["metadata"]["uid"] == outputs["metadata"]["uid"]
        assert cluster[key]["metadata"]["labels"] == inputs["metadata"]["labels"]
        assert plugin.read(id, _token(key[0]), outputs, inputs)[2] == inputs, "no drift"
        wanted = plain(inputs)
        assert wanted.get("data") == cluster[key].get("data")
        if key[0] == "Pod":
            assert wanted["spec"]["containers"][0]["image"] == cluster[key]["spec"]["containers"][0]["image"]
