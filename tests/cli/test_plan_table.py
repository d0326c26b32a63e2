"""The plan as tables: changes with their reasons, and pools of machines with their price per hour."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from symphony.cli import plan_table
from symphony.operations.plan import Planned
from symphony.placement.planner import place, summarize
from symphony.placement.pool import Pool
from symphony.plan.changes import Change
from tests.placement.fleet import FLEET, pod, pool, share


def planned(*changes: Change) -> Planned:
    return Planned(
        "rl",
        "p",
        {"backend": "kubernetes", "processes": [], "services": [], "changed_files": [], "remarks": []},
        changes,
        unused=(),
        now=5,
    )


def test_a_long_shared_reason_is_printed_once_below_the_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    images = "image: registry.example.com/team/project/rl:1 -> registry.example.com/team/project/rl:2"
    changes = [Change(name, "restart", (images,)) for name in ("learner", "w-0", "w-1")]
    changes.insert(0, Change("actor", "restart", ("failed: exit 1", images)))
    plan_table.show(planned(*changes, Change("other", "restart", ("env LR: 0.1 -> 0.2",))))
    out = capsys.readouterr().out
    # The reason names two images.
    assert out.count("registry.example.com") == 2
    assert f"actor, learner, w-0..1: {images}\n" in out
    assert "other    restart  env LR: 0.1 -> 0.2" in out
    plan_table.show(planned(changes[0]))
    assert images in " ".join(capsys.readouterr().out.split())


def placement_table(capsys: pytest.CaptureFixture[str], pods, pools: tuple[Pool, ...] = FLEET) -> list[str]:
    summary = summarize(place(pods, pools), pools, {})
    assert summary is not None
    plan_table.show_placement(asdict(summary))
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_the_placement_table_lists_processes_and_price_of_each_pool(
    capsys: pytest.CaptureFixture[str],
) -> None:
    agents = [share(f"agent-{i}", 3, "cpu") for i in range(12)]
    pods = [pod("learner", gpus=1), *agents, share("eval", 2, "cpu"), pod("free", pool="cpu")]
    _, gpu, cpu, total = placement_table(capsys, pods)
    assert gpu == "gpu n1-standard-8 + 1 v100 1 4 learner (1 GPU) 2.86"
    takes = "agent-0..11 (1/3 each: 2.4 cpu, 15.12 GiB), eval (1/2: 3.61 cpu, 22.67 GiB), free (no request)"
    assert cpu == f"cpu n1-highmem-8 5 20 {takes} 2.37"
    assert total.endswith("us-central1: 5.23 $/h")


def test_an_unknown_price_is_shown_as_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    arm = pool("arm", "n2-custom-8-32768", spot=True)
    _, row, total = placement_table(capsys, [pod("a", cpu=1, spot=True)], (arm,))
    assert row == "arm n2-custom-8-32768, spot 1 - a (1/7: 1 cpu) -"
    assert total.endswith(": - $/h")
