"""Experiments that run in a cluster without a state, with the command that removes each."""

from __future__ import annotations

from typing import Any

import pytest

from symphony.backends.kubernetes import observe
from symphony.backends.kubernetes.api import kubeconfig
from symphony.backends.kubernetes.manifests import labels
from tests.backends.kubernetes.scripted_api import Answer, Asked, serving


def _object(name: str, namespace: str, owner: str, experiment: str) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": {labels.EXPERIMENT: experiment},
        "annotations": {labels.OWNER: owner},
    }
    return {"metadata": metadata, "spec": {"containers": [{"name": name}]}}


def test_the_command_that_removes_an_experiment_spares_others_in_its_namespace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(asked: Asked) -> Answer:
        if "/namespaces" in asked.path:
            return 200, {"items": [_object("own", "", "p/own#1", "own")]}
        shared = [_object(f"{stack}-a", "lab", f"p/{stack}#1", stack) for stack in ("mine", "yours")]
        return 200, {"items": [*shared, _object("a", "own", "p/own#1", "own")]}

    with serving(answer) as api:
        monkeypatch.setattr(kubeconfig, "contexts", lambda: ["c"])
        monkeypatch.setattr(observe, "client_of", lambda *_: api.client())
        commands = [command for _, _, command in observe.list_everywhere()]
    assert commands == [
        "kubectl --context c delete namespace own",
        "kubectl --context c delete -n lab pods -l symphony/experiment=mine",
        "kubectl --context c delete -n lab pods -l symphony/experiment=yours",
    ]
