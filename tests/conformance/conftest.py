"""The backends the conformance suite runs in; another one is a row in BACKENDS and a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.backend import Backend
from tests.conformance.kubernetes_backend import KubernetesBackend, RoleBackend
from tests.conformance.slurm_backend import SlurmBackend
from tests.conformance.tmux_backend import TmuxBackend
from tests.sandbox import Sandbox, sandbox_in
from toolchain.kubernetes.fixtures import cluster
from toolchain.plugins import install
from toolchain.slurm.fixtures import slurm

__all__ = ["cluster", "slurm"]


def _tmux(sandbox: Sandbox, request: pytest.FixtureRequest) -> Backend:
    return TmuxBackend(sandbox)


def _kubernetes(
    sandbox: Sandbox, request: pytest.FixtureRequest, backend: type[KubernetesBackend] = KubernetesBackend
) -> Backend:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PULUMI_HOME", sandbox.environment["PULUMI_HOME"])
        install()
    return backend(sandbox, request.getfixturevalue("cluster"))


def _role(sandbox: Sandbox, request: pytest.FixtureRequest) -> Backend:
    return _kubernetes(sandbox, request, RoleBackend)


def _slurm(sandbox: Sandbox, request: pytest.FixtureRequest) -> Backend:
    return SlurmBackend(sandbox, request.getfixturevalue("slurm"))


ON_A_CLUSTER = [pytest.mark.kubernetes, pytest.mark.timeout(400)]
BACKENDS = [
    pytest.param(_tmux, id="tmux"),
    pytest.param(_kubernetes, id="kubernetes", marks=ON_A_CLUSTER),
    pytest.param(_slurm, id="slurm", marks=[pytest.mark.slurm, pytest.mark.timeout(400)]),
    pytest.param(_role, id="role", marks=[*ON_A_CLUSTER, pytest.mark.slow]),
]


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """Yield a backend with a project of its own, shared by the tests of a file."""
    place: Path = tmp_path_factory.mktemp("w")
    with sandbox_in(place, "conformance") as sandbox:
        yield request.param(sandbox, request)


@pytest.fixture
def stack(request: pytest.FixtureRequest, backend: Backend) -> Iterator[str]:
    """Yield the name STACK of a test's file, and delete that stack afterwards."""
    name: str = request.module.STACK
    try:
        yield name
    finally:
        backend.delete(name)
        assert backend.leftovers(name) == []
        backend.forget(name)
