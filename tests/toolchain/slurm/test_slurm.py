"""The Slurm of the tests: every node runs jobs, of an ordinary user too, and it leaves nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from toolchain.slurm.cluster import NODES, Slurm
from toolchain.slurm.fixtures import slurm

__all__ = ["slurm"]
pytestmark = pytest.mark.slurm


def _srun(slurm: Slurm, *words: str, **more: Any) -> str:
    environment = {"SLURM_CONF": str(slurm.configuration), "PATH": os.environ["PATH"]}
    done: Any = subprocess.run(
        ["srun", *words], env=environment, capture_output=True, text=True, timeout=30, check=True, **more
    )
    return done.stdout


def test_every_node_runs_a_task(slurm: Slurm) -> None:
    out = _srun(slurm, "-N4", "-n4", "sh", "-c", "echo $SLURMD_NODENAME")
    assert set(out.split()) == set(NODES)


def test_a_gpu_is_a_resource(slurm: Slurm) -> None:
    assert "n1" in _srun(slurm, "--gres=gpu:v100:2", "sh", "-c", "echo $SLURMD_NODENAME")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_an_ordinary_user_runs_a_task(slurm: Slurm) -> None:
    assert _srun(slurm, "id", "-un", user="nobody", group="nogroup", cwd="/tmp").split() == ["nobody"]


def test_status_tells_that_it_is_up(slurm: Slurm) -> None:
    words = [sys.executable, "-m", "toolchain.slurm", "status"]
    assert subprocess.run(words, capture_output=True, timeout=20, check=False).returncode == 0
