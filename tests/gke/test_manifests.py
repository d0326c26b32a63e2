"""`plan --yaml` of a placed experiment, while its cluster is not up."""

from __future__ import annotations

import pytest

from tests.sandbox import Sandbox

pytestmark = [pytest.mark.timeout(180)]
PROGRAM = """
from symphony import Experiment, run_program
with Experiment("ml") as e:
    e.new_process("learner", image="none:1", command=["learn"]).place(pool="gpu", gpu=1)
"""


@pytest.mark.thorough
def test_plan_yaml_of_a_placed_experiment_contacts_no_cluster(sandbox: Sandbox) -> None:
    sandbox.write(PROGRAM)
    sandbox.config("ml", backend="kubernetes", cluster="gke")
    out = sandbox.symphony("plan", "ml", "--yaml").out
    assert "kind: Pod" in out
    assert "nvidia.com/gpu: '1'" in out
