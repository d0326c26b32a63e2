"""SYMPHONY_TEST_KUBECONFIG names a cluster with which the tests can do nothing: one line says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.kubernetes import fixtures


@pytest.mark.parametrize(
    ("kubectl", "words"),
    [
        (None, "kubectl is not installed"),
        ("echo no; exit 1", "auth can-i failed (1): no"),
        ("echo yes", ""),
    ],
    ids=["no kubectl", "may not", "may"],
)
def test_a_user_who_may_not_make_namespaces_is_told_so_once(
    kubectl: str | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}")
    if kubectl is not None:
        (tmp_path / "kubectl").write_text(f"#!/bin/sh\n{kubectl}\n")
        (tmp_path / "kubectl").chmod(0o755)
    result = fixtures.unusable("/some/kubeconfig")
    assert result.endswith(words)
    assert bool(result) == bool(words)
    assert len(result.splitlines()) <= 1
