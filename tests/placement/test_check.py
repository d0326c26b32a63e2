"""Problems of declared pools, by pool."""

from typing import Any

import pytest

from symphony import NodePool
from symphony.errors import UserError
from symphony.placement.machines import GIB
from symphony.placement.pool import Pool, faults, unknown_machines


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"min": 3, "max": 2}, "min 3 above max 2"),
        ({"max": 0}, "min 0 and max 0"),
        ({"gpus": 3, "gpu_type": "nvidia-tesla-v100"}, "1, 2, 4 or 8"),
        ({"zones": ("us-east1-b",)}, "us-east1-b, outside of us-central1"),
        ({"machine_type": ""}, "no machine type"),
    ],
)
def test_each_problem_of_a_pool_names_the_pool_with_a_remedy(settings: dict[str, Any], words: str):
    good: dict[str, Any] = {"name": "a", "machine_type": "n1-standard-8", "cpu": 8, "memory": GIB}
    ((name, what, remedy),) = faults([Pool(**{**good, **settings})], "us-central1-a")
    assert name == "a"
    assert words in what
    assert remedy
    twice = [Pool(**good), Pool(**good)]
    assert [what for _, what, _ in faults(twice)] == ["is declared 2 times"]


def test_an_unknown_machine_type_is_a_warning():
    unknown = Pool(name="a", machine_type="n1-standrd-8", cpu=0, memory=0)
    (warning,) = unknown_machines([unknown, Pool(name="b", machine_type="n1-standard-8", cpu=8, memory=GIB)])
    assert "n1-standrd-8" in warning
    assert "n1-standard-8" in warning
    assert "cpus=" in warning


def test_sizes_of_an_unknown_machine_type_can_be_declared():
    pool = NodePool("x", "z9-mega-8", cpus=64, memory_gb=256, accelerator=("nvidia-x9", 8)).pool
    assert (pool.cpu, pool.memory, pool.gpus, pool.gpu_type) == (64, 256 * GIB, 8, "nvidia-x9")
    assert not list(unknown_machines([pool]))
    assert not list(faults([pool]))


def test_valid_pools_have_no_problems():
    good = Pool(name="a", machine_type="n1-standard-8", cpu=8, memory=GIB, max=2, zones=("us-central1-b",))
    assert not list(faults([good], "us-central1"))
    with pytest.raises(UserError, match="cpus"):
        NodePool("x", "z9-mega-8", cpus=-1)
