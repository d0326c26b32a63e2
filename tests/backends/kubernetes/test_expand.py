"""What the resources are told beside their manifests; the engine's own runs are elsewhere."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from symphony.backends.kubernetes import expand
from tests.backends.kubernetes.api import MISSING, serving

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
