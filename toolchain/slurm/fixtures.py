"""Slurm as a pytest fixture: `from toolchain.slurm.fixtures import slurm` in a conftest.

Sessions share it; the last one takes it down, unless a person brought it up. With CI set a missing one is
a failure.
"""

import fcntl
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from toolchain.kubernetes.calls import say
from toolchain.slurm import cluster
from toolchain.slurm.cluster import Slurm


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    """Yield a running Slurm of four nodes and two spare ones."""
    if reason := cluster.impossible():
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with in_use(Slurm.default()) as shared:
        yield shared


@contextmanager
def in_use(shared: Slurm) -> Generator[Slurm]:
    """Bring Slurm up if it is down; take it down after the block unless others use it.

    A Slurm that a person brought up stays up.
    """
    shared.folder.parent.mkdir(parents=True, exist_ok=True)
    with (
        shared.folder.with_name("slurm.turn").open("w") as turn,
        shared.folder.with_name("slurm.users").open("w") as users,
    ):
        # Sessions start and end it one at a time; they do not hold this lock while they only use it.
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not shared.is_ready():
            shared.up(say)
            _for_tests(shared).touch()
        shared.start_missing_nodes()
        fcntl.flock(users, fcntl.LOCK_SH)
        fcntl.flock(turn, fcntl.LOCK_UN)
        try:
            yield shared
        finally:
            fcntl.flock(turn, fcntl.LOCK_EX)
            with suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _for_tests(shared).exists():
                    shared.down()


def _for_tests(slurm: Slurm) -> Path:
    """Return the file that marks a Slurm that was started for tests."""
    return slurm.folder / "for-tests"
