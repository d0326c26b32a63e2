"""What is wrong with pools is told at once, by name."""

from symphony import NodePool
from symphony.placement.machines import GIB
from symphony.placement.pool import Pool, faults, unknown_machines


def test_all_that_is_wrong_is_told():
    pools = [
        Pool(name="a", machine_type="n1-standrd-8", cpu=8, memory=GIB),
        Pool(name="a", machine_type="n1-standard-8", cpu=8, memory=GIB, min=3, max=2),
        Pool(name="b", machine_type="n1-standard-8", cpu=8, memory=GIB, gpus=3, gpu_type="nvidia-tesla-v100"),
        Pool(name="c", machine_type="n1-standard-8", cpu=8, memory=GIB, zones=("us-east1-b",), max=0),
        Pool(name="d", machine_type="", cpu=8, memory=GIB),
    ]
    assert [f"{name} {what}. {remedy}" for name, what, remedy in faults(pools, "us-central1-a")] == [
        "a is declared 2 times. give each pool a name of its own",
        "a has min 3 above max 2. raise max or lower min",
        "b cannot have its GPUs: a machine takes 1, 2, 4 or 8 nvidia-tesla-v100. choose another machine type"
        " or number of GPUs",
        "c has the sizes min 0 and max 0. min is at least 0, max at least 1",
        "c is in us-east1-b, outside of us-central1. the cluster is in us-central1-a: choose zones such as"
        " us-central1-a",
        "d has no machine type. such as n1-standard-8",
    ]


def test_an_unknown_machine_type_is_a_warning():
    unknown = Pool(name="a", machine_type="n1-standrd-8", cpu=0, memory=0)
    (warning,) = unknown_machines([unknown, Pool(name="b", machine_type="n1-standard-8", cpu=8, memory=GIB)])
    assert "n1-standrd-8" in warning
    assert "n1-standard-8" in warning
    assert "cpus=" in warning


def test_a_program_gives_the_sizes_of_a_new_machine_type():
    pool = NodePool("x", "z9-mega-8", cpus=64, memory_gb=256, accelerator=("nvidia-x9", 8)).pool
    assert (pool.cpu, pool.memory, pool.gpus, pool.gpu_type) == (64, 256 * GIB, 8, "nvidia-x9")
    assert "cpus=" not in next(unknown_machines([pool]))
    assert not list(faults([pool]))


def test_good_pools_have_no_faults():
    good = Pool(name="a", machine_type="n1-standard-8", cpu=8, memory=GIB, max=2, zones=("us-central1-b",))
    assert not list(faults([good], "us-central1"))
