"""The options of the resources beside their manifests; without a run of the engine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from symphony.backends.kubernetes import expand
from symphony.backends.kubernetes.cluster import replacement
from symphony.backends.kubernetes.manifests.render import Manifests
from tests.backends.kubernetes.scripted_api import MISSING, serving

POD = {"kind": "Pod", "metadata": {"name": "a", "namespace": "rl", "annotations": {}}, "spec": {}}


def made(monkeypatch: pytest.MonkeyPatch, replaced: set[str], deadline: int = 5) -> Any:
    """The options of the resource of a pod."""
    messages: list[Any] = []
    monkeypatch.setattr(expand.pulumi, "CustomResource", lambda *given: messages.append(given[3]))
    monkeypatch.setattr(expand.pulumi, "ResourceOptions", lambda **given: SimpleNamespace(**given))
    maker: Any = expand._Maker
    maker(SimpleNamespace(images={}), None, deadline, frozenset(replaced))._pod(POD, None, [], None)
    return messages[0]


def test_a_process_that_saves_for_minutes_has_them_when_it_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = made(monkeypatch, set(), expand._SECONDS + 300)
    assert options.custom_timeouts.delete == "420s"


def test_a_grace_in_pod_yml_is_waited_for_as_well() -> None:
    patient = {**POD, "spec": {"terminationGracePeriodSeconds": 600}}
    for pods, seconds in (({}, 5), ({"a": (None, POD)}, 5), ({"a": (None, POD), "b": (None, patient)}, 600)):
        manifests: Any = SimpleNamespace(pods=pods)
        assert expand._grace(manifests, 5) == seconds


@pytest.mark.parametrize("replaced", [set(), {"a"}])
def test_only_what_is_replaced_is_compared(monkeypatch: pytest.MonkeyPatch, replaced: set[str]) -> None:
    """An admission webhook may have rewritten the spec of a pod: that does not restart it."""
    options = made(monkeypatch, replaced)
    assert options.ignore_changes == ([] if replaced else ["spec"])
    assert options.replace_on_changes == [replacement.ATTEMPT, replacement.DIGEST]


@pytest.mark.parametrize("unknown", [(), ("a",)])
def test_which_start_a_pod_will_be_is_unknown_in_a_preview_that_replaces_it(unknown: tuple[str, ...]) -> None:
    variables = {**POD, "kind": "ConfigMap"}
    manifests = Manifests(None, variables, None, None, None, {}, {"a": (None, POD)})
    with serving(lambda _: MISSING) as api:
        marked = replacement.annotate_all(api.client(), {}, manifests, unknown)
    assert marked.variables["metadata"]["annotations"], "it is not there, so that it is made again"
    assert bool(marked.pods["a"][1]["metadata"]["annotations"]) == bool(unknown)
