"""Backends are found by their names and aliases; an unknown one lists those there are."""

from __future__ import annotations

import pytest

from symphony.backends import registry
from symphony.errors import UserError


@pytest.mark.parametrize(
    ("said", "backend"),
    [(None, "tmux"), ("", "tmux"), ("tmux", "tmux"), ("kube", "kubernetes"), ("k8s", "kubernetes")],
)
def test_known(said, backend):
    assert registry.named(said).name == backend


def test_unknown():
    with pytest.raises(UserError) as raised:
        registry.named("tmx", where="symphony:backend")
    assert str(raised.value) == (
        'there is no backend "tmx" (symphony:backend). The backends are: tmux, kubernetes.'
    )
