"""The commands of docs/slurm.md run examples/surreal on Slurm and plot its learning curve."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.documents import blocks
from tests.sandbox import ROOT, Sandbox, clone_in, sandbox_in, wait_for
from toolchain.slurm.cluster import Slurm
from toolchain.slurm.fixtures import slurm

__all__ = ["slurm"]
pytestmark = [pytest.mark.slurm, pytest.mark.thorough, pytest.mark.timeout(400)]
STACK, TARGET = "surreal.lab", 195
(LINES,) = blocks("docs/slurm.md", "console")


@pytest.fixture
def lab(slurm: Slurm, tmp_path: Path) -> Iterator[Sandbox]:
    """The root project, as a clone would have it, with the stack of the repository."""
    clone = clone_in(tmp_path)
    file = Path("stacks") / f"Pulumi.{STACK}.yaml"
    config = yaml.safe_load((ROOT / file).read_text())["config"]
    config["surreal:settings"] |= {"target": TARGET}
    (clone / file).write_text(yaml.safe_dump({"config": config}))
    with sandbox_in(tmp_path, folder=clone) as sandbox:
        sandbox.environment["SLURM_CONF"] = str(slurm.configuration)
        try:
            yield sandbox
        finally:
            sandbox.symphony("delete", STACK, "-y", code=None, timeout=60)


def test_a_login_leads_to_a_curve(lab: Sandbox) -> None:
    lines = [line.removeprefix("$ ").split() for line in LINES.splitlines()]
    assert [words[0] for words in lines[:3]] == ["ssh", "make", "source"]
    said = {words[1]: words for words in lines[3:]}
    assert [*said] == ["doctor", "plan", "up", "logs", "visit", "examples/surreal/plot.py", "delete"]
    assert "sbatch" in lab.symphony(*said["doctor"][1:], code=None).out
    assert "2 nodes" in lab.symphony(*said["plan"][1:]).out
    lab.symphony(*said["up"][1:], timeout=120)

    def has_learned() -> bool:
        return f"reached {TARGET}" in lab.symphony(*said["logs"][1:]).out

    wait_for(has_learned, 240, "it has learned", pause=1)
    means = re.findall(r"return +(\S+) ", lab.symphony(*said["logs"][1:]).out)
    assert float(means[0]) < TARGET

    def visited() -> str:
        return lab.symphony(*said["visit"][1:], code=None).out.strip()

    url = wait_for(visited, 60, "tensorboard listens", pause=0.5)
    with urllib.request.urlopen(f"{url}/data/plugin/scalars/tags", timeout=10) as answer:
        assert answer.status == 200
    program = said["examples/surreal/plot.py"]
    lab.run([str(ROOT / ".venv/bin/python"), *program[1:]], timeout=60)
    assert (lab.folder / "curve.png").stat().st_size > 1000
    lab.symphony(*said["delete"][1:], timeout=60)
    assert lab.trees() == {}
