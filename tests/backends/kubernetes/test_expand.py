"""Pulumi resource options of pods: delete timeouts, and which changes replace a pod (no engine run)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from symphony.backends.kubernetes import expand, prepare
from symphony.backends.kubernetes.manifests.render import Manifests
from tests.backends.kubernetes.scripted_api import MISSING, serving

POD = {"kind": "Pod", "metadata": {"name": "a", "namespace": "rl", "annotations": {}}, "spec": {}}


def options_of_pod(monkeypatch: pytest.MonkeyPatch, replaced: set[str], deadline: int = 5) -> Any:
    """The options of the resource of a pod."""
    created: list[Any] = []
    monkeypatch.setattr(expand.pulumi, "CustomResource", lambda *given: created.append(given[3]))
    monkeypatch.setattr(expand.pulumi, "ResourceOptions", lambda **given: SimpleNamespace(**given))
    registration: Any = expand._Registration
    registration(SimpleNamespace(images={}), None, deadline, frozenset(replaced))._pod(POD, None, [], None)
    return created[0]


def test_the_delete_timeout_is_the_deadline_of_the_registration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = options_of_pod(monkeypatch, set(), 420)
    assert options.custom_timeouts.delete == "420s"


def test_the_longest_grace_period_of_pod_yml_counts() -> None:
    patient = {**POD, "spec": {"terminationGracePeriodSeconds": 600}}
    for pods, seconds in (({}, 5), ({"a": (None, POD)}, 5), ({"a": (None, POD), "b": (None, patient)}, 600)):
        manifests: Any = SimpleNamespace(pods=pods)
        assert expand._grace(manifests, 5) == seconds


@pytest.mark.parametrize("replaced", [set(), {"a"}])
def test_the_spec_is_compared_only_for_pods_to_be_replaced(
    monkeypatch: pytest.MonkeyPatch, replaced: set[str]
) -> None:
    """Otherwise a pod whose spec an admission webhook rewrote would restart."""
    options = options_of_pod(monkeypatch, replaced)
    assert options.ignore_changes == ([] if replaced else ["spec"])
    assert options.replace_on_changes == [prepare.ATTEMPT, prepare.DIGEST]


@pytest.mark.parametrize("unknown", [(), ("a",)])
def test_the_attempt_annotation_is_unknown_in_a_preview_that_replaces_the_pod(
    unknown: tuple[str, ...],
) -> None:
    variables = {**POD, "kind": "ConfigMap"}
    manifests = Manifests(None, (variables,), {}, {"a": (None, POD)})
    with serving(lambda _: MISSING) as api:
        marked = prepare.annotate_all(api.client(), {}, manifests, unknown)
    assert marked.files[0]["metadata"]["annotations"], "a missing object gets a new attempt"
    attempts = [*marked.pods["a"][1]["metadata"]["annotations"].values()]
    assert attempts == [prepare.UNKNOWN for _ in unknown]
