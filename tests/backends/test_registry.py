"""Backends are found by their names and aliases; an unknown one lists those there are."""

from __future__ import annotations

import pytest

from symphony.backends import registry
from symphony.errors import UserError
from symphony.spec.experiment import ExperimentSpec
from symphony.spec.group import ProcessGroupSpec
from symphony.spec.mounts import MOUNT_KINDS
from symphony.spec.pod import PodSettings
from symphony.spec.process import ProcessSpec
from symphony.spec.setting import settings_of


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


def test_the_settings_of_a_row_are_settings_that_vary() -> None:
    kinds = (ExperimentSpec, ProcessGroupSpec, ProcessSpec, PodSettings)
    varying = {each.name for kind in kinds for each in settings_of(kind).values() if each.varies}
    varying = varying - {"mounts"} | {f"mount_{name}" for name in MOUNT_KINDS}
    used = [registry.get(name).settings for name in ("tmux", "kubernetes")]
    assert frozenset.union(*used) == varying
