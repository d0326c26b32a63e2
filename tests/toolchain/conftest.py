"""A network of its own for a second cluster, and a folder for its files."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.toolchain.network_namespace import Elsewhere
from toolchain.kubernetes.fixtures import Access, cluster

__all__ = ["cluster"]


@pytest.fixture
def elsewhere(cluster: Access) -> Iterator[Elsewhere]:
    """Yield a network namespace for a second cluster, while the first one runs."""
    if not cluster.registry:
        pytest.skip("SYMPHONY_TEST_KUBECONFIG names another cluster")
    made = Elsewhere()
    yield made
    made.close()


@pytest.fixture
def folder(elsewhere: Elsewhere) -> Iterator[Path]:
    """Yield a folder with a short path, because pytest's are too long for sockets.

    Afterwards end any cluster in it, and remove the folder.
    """
    with tempfile.TemporaryDirectory(prefix="symphony-") as made:
        folder = Path(made) / "cluster"
        yield folder
        elsewhere.run(
            sys.executable, "-m", "toolchain.kubernetes", "down", "--folder", str(folder), "--purge"
        )
