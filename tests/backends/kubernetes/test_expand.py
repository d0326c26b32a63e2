"""What the resources are told beside their manifests; the engine's own runs are elsewhere."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from symphony.backends.kubernetes import expand
from tests.backends.kubernetes.scripted_api import MISSING, serving

POD = {"kind": "Pod", "metadata": {"name": "a", "namespace": "rl"}, "spec": {}}


def test_a_process_that_saves_for_minutes_has_them_when_it_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[Any] = []
    monkeypatch.setattr(expand.pulumi, "CustomResource", lambda *given: told.append(given[3]))
    monkeypatch.setattr(expand.pulumi, "ResourceOptions", lambda **given: SimpleNamespace(**given))
    with serving(lambda _: MISSING) as api:
        live = expand.Living({}, {}, {})
        maker: Any = expand._Maker
        made = maker(None, api.client(), live, "o", None, expand._SECONDS + 300, False)
        made._object(POD, None, [], None)
    assert told[0].custom_timeouts.delete == "420s"


def test_a_grace_in_pod_yml_is_waited_for_as_well() -> None:
    patient = {**POD, "spec": {"terminationGracePeriodSeconds": 600}}
    for pods, seconds in (({}, 5), ({"a": (None, POD)}, 5), ({"a": (None, POD), "b": (None, patient)}, 600)):
        made: Any = SimpleNamespace(pods=pods)
        assert expand._grace(made, 5) == seconds


@pytest.mark.parametrize(
    ("lives", "dry_run"), [(None, True), ("other", True), ("other", False), ("same", True)]
)
def test_only_what_is_replaced_is_compared_and_unknown_in_a_preview(
    monkeypatch: pytest.MonkeyPatch, lives: str | None, dry_run: bool
) -> None:
    """Admission may have rewritten the spec of what stays: that is no reason to start it again."""

    def of(digest: str) -> dict[str, Any]:
        notes = {"symphony/owner": "o", "symphony/digest": digest, "symphony/attempt": "1"}
        marks = {"app.kubernetes.io/managed-by": "symphony"}
        return {**POD, "metadata": {**POD["metadata"], "uid": "u", "labels": marks, "annotations": notes}}

    told: list[Any] = []
    monkeypatch.setattr(expand.pulumi, "CustomResource", lambda *given: told.append(given))
    monkeypatch.setattr(expand.pulumi, "ResourceOptions", lambda **given: SimpleNamespace(**given))
    with serving(lambda _: MISSING) as api:
        live = expand.Living({"a": of(lives)} if lives else {}, {}, {})
        maker: Any = expand._Maker
        maker(None, api.client(), live, "o", None, 5, dry_run)._pod(of("same"), None, [], None)
    (_, _, manifest, options) = told[0]
    is_replaced = lives == "other"
    assert options.ignore_changes == ([] if is_replaced else ["spec"])
    assert options.replace_on_changes == [expand.replacement.MARK, expand.replacement.DIGEST]
    unknown = manifest["metadata"]["annotations"]["symphony/attempt"] != "1"
    assert unknown == (is_replaced and dry_run)
