"""Tables of machine types, GPUs, allocatable resources and prices."""

from typing import Any

import pytest

from symphony.placement import machines
from symphony.placement.machines import GIB, MIB
from symphony.placement.pool import LIST_PRICES, Amounts, Pool, Taint, allocatable, available
from tests.placement import fleet


def pool(machine_type: str, **more: Any) -> Pool:
    return fleet.pool("p", machine_type, **more)


@pytest.mark.parametrize(
    ("machine_type", "cpu", "gib"),
    [
        ("n1-standard-8", 8, 30),
        ("n1-highmem-8", 8, 52),
        ("n1-highcpu-16", 16, 14.4),
        ("e2-micro", 2, 1),
        ("g2-standard-24", 24, 96),
        ("custom-6-20480", 6, 20),
        ("n2-custom-4-8192", 4, 8),
    ],
)
def test_cpu_and_memory_of_machine_types(machine_type: str, cpu: int, gib: float):
    machine = machines.find(machine_type)
    assert machine is not None
    assert (machine.cpu, machine.memory) == (cpu, int(gib * GIB))


def test_known_machine_types_are_found_and_unknown_ones_are_not():
    assert all(machines.find(each) for each in machines.known())
    for name in ("n1-standard-3", "n1-standard", "n9-standard-4", "n1", ""):
        assert machines.find(name) is None


@pytest.mark.parametrize(
    ("machine_type", "gpu_type", "gpus", "fault"),
    [
        ("n1-standard-8", "nvidia-tesla-v100", 1, ""),
        ("n1-standard-16", "nvidia-tesla-v100", 1, "at most 12 vCPUs and 78 GiB"),
        ("n1-standard-8", "nvidia-tesla-v100", 3, "takes 1, 2, 4 or 8 nvidia-tesla-v100"),
        ("n2-standard-8", "nvidia-tesla-t4", 1, "n1 machines only"),
        ("n1-standard-8", "nvidia-l4", 1, "included in machine types such as g2-standard-4"),
        ("n1-standard-8", "nvidia-h100-80gb", 8, "included in machine types such as a3-highgpu-8g"),
        ("n1-standard-8", "nvidia-x", 1, "no GPU type nvidia-x"),
        ("a2-highgpu-2g", "nvidia-tesla-a100", 2, ""),
        ("a2-highgpu-2g", "nvidia-tesla-a100", 4, "includes 2 nvidia-tesla-a100 and takes no other GPUs"),
    ],
)
def test_which_gpus_fit_a_machine_type(machine_type: str, gpu_type: str, gpus: int, fault: str):
    machine = machines.find(machine_type)
    assert machine is not None
    result = machines.gpu_fault(machine, gpu_type, gpus)
    assert fault in result if fault else not result


def test_reserved_resources_match_gkes_documentation():
    """8 cores reserve 60 + 10 + 10 + 10 m; 52 GiB 1 + 0.8 + 0.8 + 2.16 GiB, 100 MiB and the kernel's."""
    result = allocatable(pool("n1-highmem-8"))
    assert result.cpu == 8000 - 90
    kernel = 52 * GIB // 64 + 128 * MIB
    assert abs(result.memory - (52 * GIB - int(4.76 * GIB) - 100 * MIB - kernel)) <= 2
    assert allocatable(pool("e2-small")).cpu == 940


def test_an_untainted_pool_reserves_resources_for_system_pods():
    tainted = available(pool("n1-standard-8", taints=(Taint("surreal", "true"),)))
    assert fleet.holds(tainted, available(pool("n1-standard-8")) + Amounts(cpu=300))


# Whole machines of us-central1 on 2025-03-06: on demand and spot, as Google lists them.
LISTED = {
    "n1-standard-4": (0.189999, 0.05201),
    "e2-highmem-4": (0.18079932, 0.072288),
    "e2-standard-8": (0.26804568, 0.107168),
    "n2-standard-48": (2.330832, 0.719424),
    "n4-highcpu-8": (0.319856, 0.125088),
    "c2-standard-30": (1.56606, 0.26454),
    "c2d-standard-8": (0.363192, 0.099552),
    "c3-highcpu-88": (3.742288, 0.673728),
    "t2a-standard-48": (1.848, 0.486528),
    "t2d-standard-1": (0.042246, 0.005872),
    "g2-standard-12": (1.000416, 0.393596),
    "a2-highgpu-8g": (29.38708, 10.34684),
    "a2-ultragpu-4g": (20.275192, 8.109873),
    "a3-highgpu-4g": (44.245, 17.697875),
}


@pytest.mark.parametrize("machine_type", LISTED)
def test_machine_prices_match_googles_list(machine_type: str):
    prices = [LIST_PRICES.hourly(pool(machine_type, spot=spot)) for spot in (False, True)]
    assert prices == pytest.approx(LISTED[machine_type], rel=1e-5)


@pytest.mark.parametrize(
    ("machines_of", "dollars"),
    [
        (pool("n1-standard-8", gpus=1, gpu_type="nvidia-tesla-v100"), 2.86),
        (pool("a2-highgpu-1g", gpus=1, gpu_type="nvidia-x"), None),
        (pool("n1-standard-8", gpus=1, gpu_type="nvidia-tesla-v100", spot=True), None),
        (pool("n2-custom-4-8192"), None),
    ],
)
def test_prices_of_gpus_and_unknown_prices(machines_of: Pool, dollars: float | None):
    result = LIST_PRICES.hourly(machines_of)
    assert result == (dollars if dollars is None else pytest.approx(dollars, abs=1e-4))


def test_every_machine_family_has_an_on_demand_and_a_spot_price():
    newer = ("c4-", "c4a-", "m3-", "a3-megagpu", "a3-ultragpu")
    for machine_type in (each for each in machines.known() if not each.startswith(newer)):
        assert LIST_PRICES.hourly(pool(machine_type))
        assert LIST_PRICES.hourly(pool(machine_type, spot=True))


def test_a_pool_round_trips_through_a_stack_output():
    """Numbers of a stack's output come back as floats."""
    before = pool(
        "n1-standard-8",
        max=4,
        taints=(Taint("a", "b"),),
        zones=("us-central1-a",),
        allocatable=Amounts(1, 2, 3, 4),
    )
    given = {k: float(v) if type(v) is int else v for k, v in before.to_json().items()}
    assert Pool.from_json(given) == before
