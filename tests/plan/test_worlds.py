"""Worlds are found by their names and aliases; an unknown one lists those there are."""

from __future__ import annotations

import pytest

from symphony.errors import UserError
from symphony.plan.worlds import world_named


@pytest.mark.parametrize(
    ("said", "world"),
    [(None, "tmux"), ("", "tmux"), ("tmux", "tmux"), ("kube", "kubernetes"), ("k8s", "kubernetes")],
)
def test_known(said, world):
    assert world_named(said) == world


def test_unknown():
    with pytest.raises(UserError) as raised:
        world_named("tmx", where="symphony:backend")
    assert str(raised.value) == (
        'there is no backend "tmx" (symphony:backend). The backends are: tmux, kubernetes.'
    )
