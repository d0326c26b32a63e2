"""The placement table: pools, machines, their processes, price per hour."""

from dataclasses import asdict

import pytest

from symphony.cli import plan_table
from symphony.placement.planner import place, summarize
from symphony.placement.pool import LIST_PRICES, Pool
from tests.placement.fleet import FLEET, pod, pool, share


def table_of(capsys: pytest.CaptureFixture[str], pods, pools: tuple[Pool, ...] = FLEET) -> str:
    summary = summarize(place(pods, pools, LIST_PRICES), pools, LIST_PRICES, {})
    assert summary is not None
    plan_table.show_placement(asdict(summary))
    return capsys.readouterr().out


def test_table_lists_processes_and_price_of_each_pool(capsys: pytest.CaptureFixture[str]):
    agents = [share(f"agent-{i}", 3, "cpu") for i in range(12)]
    out = table_of(
        capsys, [pod("learner", gpus=1), *agents, share("eval", 2, "cpu"), pod("free", pool="cpu")]
    )
    head, gpu, cpu, total = out.splitlines()
    assert head.split("  ")[0] == "pool"
    assert " ".join(gpu.split()) == "gpu n1-standard-8 + 1 v100 1 4 learner (1 GPU) 2.86"
    pods = "agent-0..11 (1/3 each: 2.4 cpu, 15.12 GiB), eval (1/2: 3.61 cpu, 22.67 GiB), free (no request)"
    assert " ".join(cpu.split()) == f"cpu n1-highmem-8 5 20 {pods} 2.37"
    assert total == f"total at the prices of {LIST_PRICES.date}, us-central1: 5.23 $/h"


def test_an_unknown_price_is_shown_as_a_dash(capsys: pytest.CaptureFixture[str]):
    arm = pool("arm", "n2-custom-8-32768", spot=True)
    out = table_of(capsys, [pod("a", cpu=1, spot=True)], (arm,))
    assert " ".join(out.splitlines()[1].split()) == "arm n2-custom-8-32768, spot 1 - a (1/7: 1 cpu) -"
    assert out.splitlines()[2].endswith(": - $/h")
