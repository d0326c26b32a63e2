"""The backends the conformance suite runs in; another one is a row in BACKENDS and a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.backend import Backend
from tests.conformance.kubernetes_backend import KubernetesBackend, RoleBackend
from tests.conformance.tmux_backend import TmuxBackend
from tests.desk import Desk, desk_in
from toolchain.kubernetes.fixtures import cluster
from toolchain.plugin_kubernetes.install import install

__all__ = ["cluster"]


def _tmux(desk: Desk, request: pytest.FixtureRequest) -> Backend:
    return TmuxBackend(desk)


def _kubernetes(
    desk: Desk, request: pytest.FixtureRequest, backend: type[KubernetesBackend] = KubernetesBackend
) -> Backend:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PULUMI_HOME", desk.environment["PULUMI_HOME"])
        install()
    return backend(desk, request.getfixturevalue("cluster"))


def _role(desk: Desk, request: pytest.FixtureRequest) -> Backend:
    return _kubernetes(desk, request, RoleBackend)


ON_A_CLUSTER = [pytest.mark.kubernetes, pytest.mark.timeout(400)]
BACKENDS = [
    pytest.param(_tmux, id="tmux"),
    pytest.param(_kubernetes, id="kubernetes", marks=ON_A_CLUSTER),
    pytest.param(_role, id="role", marks=[*ON_A_CLUSTER, pytest.mark.slow]),
]


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A backend with a project of its own, shared by the tests of a file."""
    place: Path = tmp_path_factory.mktemp("w")
    with desk_in(place, "conformance") as desk:
        yield request.param(desk, request)
