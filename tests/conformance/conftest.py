"""The worlds the conformance suite runs in: another backend is a row in WORLDS and a file with its World."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.kubernetes_world import KubernetesWorld, RoleWorld
from tests.conformance.tmux_world import TmuxWorld
from tests.conformance.world import World
from tests.desk import Desk, desk_in
from toolchain.kubernetes.fixtures import cluster
from toolchain.plugin_kubernetes.install import install

__all__ = ["cluster"]


def _tmux(desk: Desk, request: pytest.FixtureRequest) -> World:
    return TmuxWorld(desk)


def _kubernetes(
    desk: Desk, request: pytest.FixtureRequest, world: type[KubernetesWorld] = KubernetesWorld
) -> World:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PULUMI_HOME", desk.environment["PULUMI_HOME"])
        install()
    return world(desk, request.getfixturevalue("cluster"))


def _role(desk: Desk, request: pytest.FixtureRequest) -> World:
    return _kubernetes(desk, request, RoleWorld)


ON_A_CLUSTER = [pytest.mark.kubernetes, pytest.mark.timeout(400)]
WORLDS = [
    pytest.param(_tmux, id="tmux"),
    pytest.param(_kubernetes, id="kubernetes", marks=ON_A_CLUSTER),
    pytest.param(_role, id="role", marks=[*ON_A_CLUSTER, pytest.mark.slow]),
]


@pytest.fixture(scope="module", params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world with a project of its own, shared by the tests of a file."""
    place: Path = tmp_path_factory.mktemp("w")
    with desk_in(place, "conformance") as desk:
        yield request.param(desk, request)
