"""Backends are found by their names and aliases; an unknown name lists all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from symphony.backends import registry
from symphony.errors import SymphonyError, UserError
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony.spec.pod import MOUNT_KINDS, PodSettings
from symphony.spec.process import ProcessSpec
from symphony.spec.setting import settings_of


@pytest.mark.parametrize(
    ("name", "backend"),
    [(None, "tmux"), ("", "tmux"), ("tmux", "tmux"), ("kube", "kubernetes"), ("k8s", "kubernetes")],
)
def test_a_name_or_alias_finds_its_backend(name, backend):
    assert registry.get_by_name_or_alias(name).name == backend


def test_an_unknown_backend_name_is_an_error_that_lists_all():
    with pytest.raises(UserError) as raised:
        registry.get_by_name_or_alias("tmx")
    assert str(raised.value).startswith('there is no backend "tmx". Use one of: tmux, kubernetes, slurm')


def test_a_broken_backend_of_another_package_is_an_error_that_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "theirs-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[symphony.backends]\nbroken = no_such_module:BACKEND\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._entry_points.cache_clear()
    try:
        with pytest.raises(SymphonyError) as raised:
            registry.every()
        assert registry.exists("broken"), "asking for a name loads no backend"
        assert not registry.exists("None")
    finally:
        registry._entry_points.cache_clear()
    assert raised.value.line == (
        "the backend \"broken\" cannot be loaded: No module named 'no_such_module' (theirs)."
        " Upgrade or remove that package."
    )


def test_backends_together_list_every_setting_that_differs_between_backends() -> None:
    kinds = (ExperimentSpec, ProcessGroupSpec, ProcessSpec, PodSettings)
    varying = {each.name for kind in kinds for each in settings_of(kind).values() if each.varies}
    varying = varying - {"mounts"} | {f"mount_{name}" for name in MOUNT_KINDS}
    used = [registry.get(name).settings for name in ("tmux", "kubernetes", "slurm")]
    assert frozenset.union(*used) == varying
