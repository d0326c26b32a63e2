"""A missing Pulumi plugin is an error within seconds if the hosts of its download do not answer."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from symphony.backends.kubernetes import prerequisites
from symphony.errors import SymphonyError


def test_a_missing_plugin_behind_a_silent_proxy_is_an_error_in_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(prerequisites, "_SECONDS", 0.5)
    monkeypatch.delenv("no_proxy", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{silent.getsockname()[1]}")
        began = time.monotonic()
        with pytest.raises(SymphonyError) as error:
            prerequisites.require_plugin(prerequisites.KUBERNETES)
        assert time.monotonic() - began < 10
    assert prerequisites.KUBERNETES in error.value.what
    assert all(word in error.value.remedy for word in ("https_proxy", "pulumi plugin install"))
    # An installed plugin needs no download.
    (tmp_path / prerequisites.plugin_program(prerequisites.KUBERNETES)).touch(mode=0o755)
    prerequisites.require_plugin(prerequisites.KUBERNETES)
