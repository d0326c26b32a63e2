"""The placement planner: the cheapest pool that fits, shares of machines, reasons why none fits."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symphony.placement.planner import Claim, Pod, place, total_of
from symphony.placement.pool import Amounts, Taint, available
from symphony.spec.pod import Toleration
from tests.placement.fleet import CHEAP, CPU, FLEET, GPU, holds, pod, pool, share


def place_pods(*pods: Pod, pools=FLEET):
    return place(pods, pools)


def pool_of(candidate: Pod, pools=FLEET) -> str:
    return place_pods(candidate, pools=pools).chosen[candidate.name].pool.name


def reasons_of(candidate: Pod, pools=FLEET):
    return place_pods(candidate, pools=pools).lacking[candidate.name]


def test_the_cheapest_pool_that_fits_is_chosen():
    small = pool("small", "n1-standard-2", max=9)
    fleet = (*FLEET, small)
    assert pool_of(pod("a", 1, 1), fleet) == "small"
    assert pool_of(pod("a", 4, 8), fleet) == "cpu"
    assert pool_of(pod("a", 4, 8, spot=True), fleet) == "cheap"
    assert pool_of(pod("a", 1, 1, gpus=1), fleet) == "gpu"


def test_a_pod_that_does_not_fit_has_a_reason_for_each_pool():
    assert reasons_of(pod("a", 12, 96)) == {
        "cheap": "has spot machines, has 7.55 cpu (12 needed), 25.3 GiB (96 needed)",
        "cpu": "has 7.21 cpu (12 needed), 45.3 GiB (96 needed)",
        "gpu": "is reserved for processes with GPUs, has 7.5 cpu (12 needed), 25.2 GiB (96 needed)",
    }
    assert reasons_of(pod("a", 1, 1, gpus=2, gpu_type="nvidia-tesla-t4", spot=True)) == {
        "cheap": "has no GPUs",
        "cpu": "has no GPUs",
        "gpu": "has nvidia-tesla-v100, has 1 gpu (2 needed)",
    }


def test_a_pod_without_gpus_is_placed_in_a_gpu_pool_only_by_name():
    assert "gpu" in reasons_of(pod("a", 1), pools=(GPU,))
    assert pool_of(pod("a", 1, pool="gpu")) == "gpu"


def test_a_tainted_pool_takes_only_pods_that_name_or_tolerate_it():
    ours = pool("ours", "n1-standard-2", taints=(Taint("surreal", "true", "NoExecute"),))
    fleet = (ours, CPU)
    assert pool_of(pod("a", 1), fleet) == "cpu"
    assert pool_of(pod("a", 1, pool="ours"), fleet) == "ours"
    assert pool_of(pod("a", 1, tolerates_all=True), fleet) == "ours"
    tolerant = pod("a", 1, tolerations=(Toleration("surreal", "Exists"),))
    choice = place_pods(tolerant, pools=fleet).chosen["a"]
    assert choice.pool.name == "ours"
    assert choice.tolerations(tolerant.tolerations) == ()
    assert choice.tolerations(()) == (Toleration("surreal", "Equal", "true", "NoExecute"),)


def test_node_selectors_choose_pools():
    team = pool("team", "n1-highmem-8", labels={"team": "rl"})
    assert pool_of(pod("a", selector=(("team", "rl"),)), (CPU, team)) == "team"
    assert reasons_of(pod("a", selector=(("team", "x"),)), (CPU, team)) == {
        "cpu": "has no label team",
        "team": "has team=rl, not x",
    }
    # Labels that only the cluster knows are no reason to refuse.
    assert pool_of(pod("a", selector=(("topology.kubernetes.io/zone", "z"),)), (CPU,)) == "cpu"


@pytest.mark.parametrize("fleet", [(CPU,), (GPU,), (CHEAP,), (pool("cpu", "n1-standard-1"),)])
@pytest.mark.parametrize("parts", [1, 2, 3, 4, 7, 16])
def test_exactly_the_declared_number_of_shares_fits_on_a_machine(fleet, parts: int):
    (single_pool,) = fleet
    shared = Pod("a", (Claim(gpus=0, parts=parts),), pool=single_pool.name)
    result = place_pods(shared, pools=fleet)
    allocatable, total = available(single_pool), total_of(result.chosen["a"].claims)
    assert holds(allocatable, times(total, parts))
    assert not holds(allocatable, times(total, parts + 1))


def times(amounts: Amounts, number: int) -> Amounts:
    return sum([amounts] * (number - 1), amounts)


def test_gpus_are_divided_evenly_among_shares():
    four = pool("gpu", gpus=4, gpu_type="nvidia-tesla-t4")
    (claimed,) = place_pods(share("a", 2, "gpu"), pools=(four,)).chosen["a"].claims
    assert claimed.gpus == 2
    assert reasons_of(share("a", 3, "gpu"), pools=(four,)) == {
        "gpu": "has 4 GPUs, which 3 cannot share evenly"
    }


def test_requests_that_contradict_the_number_of_shares_are_refused():
    assert reasons_of(Pod("a", (Claim(cpu=3000, parts=4),), pool="cpu")) == {
        "cpu": "has room for 2 of these per machine, not for 4: request less"
    }


def test_containers_of_a_group_divide_the_resources_of_the_group():
    whole = Claim(cpu=5000, gpus=1)
    group = Pod("g", (Claim(gpus=1), Claim(cpu=1000), Claim()), whole=whole, pool="gpu")
    chosen = place_pods(group).chosen["g"]
    assert [(claim.cpu, claim.gpus) for claim in chosen.claims] == [(2000, 1), (1000, 0), (2000, 0)]
    unsaid = Pod("g", (Claim(), Claim()), whole=whole, pool="gpu")
    assert reasons_of(unsaid) == {
        "gpu": "has 1 GPUs for 2 processes of the group: set gpu on each that needs GPUs"
    }
    # The group sets only the pool, and one of its processes requests the GPU.
    assert pool_of(Pod("g", (Claim(gpus=1), Claim()), whole=Claim(), pool="gpu")) == "gpu"


def test_pods_beyond_a_full_pool_go_to_the_next_pool():
    one, two = pool("one", "n1-standard-8", max=1), pool("two", "n1-highmem-8", max=1)
    result = place_pods(*(pod(f"a{i}", 3) for i in range(5)), pools=(one, two))
    assert [choice.pool.name for choice in result.chosen.values()] == ["one", "one", "two", "two"]
    assert result.lacking == {
        "a4": {"one": "is at its max of 1 machines", "two": "is at its max of 1 machines"}
    }
    assert result.machines == {"one": 1, "two": 1}


def test_pods_that_name_a_pool_are_placed_first():
    one, two = pool("one", "n1-standard-8", max=1), pool("two", "n1-highmem-8", max=1)
    result = place_pods(pod("free", 6), pod("named", 6, pool="one"), pools=(one, two))
    assert [(name, choice.pool.name) for name, choice in result.chosen.items()] == [
        ("free", "two"),
        ("named", "one"),
    ]


def test_adding_a_pod_does_not_move_others():
    before = [pod(f"a{i}", 1 + i % 5, i % 7) for i in range(20)]
    few, many = place_pods(*before), place_pods(*before, *(pod(f"b{i}", 2, 4) for i in range(20)))
    assert all(many.chosen[name].pool is choice.pool for name, choice in few.chosen.items())


def test_five_thousand_pods_of_a_thousand_sizes_fit_on_a_thousand_machines():
    """Best fit wastes little and takes about a second."""
    fleet = [
        pool(f"p{i}", kind, max=200)
        for i, kind in enumerate(
            ("n1-standard-4", "n1-highmem-4", "n1-standard-8", "n1-highmem-8", "n1-highcpu-16")
        )
    ]
    pods = [pod(f"a{i}", 0.2 + i * 7 % 29 / 16, 0.5 + i * 11 % 37 / 15) for i in range(5000)]
    result = place(pods, fleet)
    assert len(result.chosen) == 5000
    assert 800 < sum(result.machines.values()) <= 1000


POOLS = st.lists(
    st.builds(
        lambda kind, spot, gpus, most: {"kind": kind, "spot": spot, "gpus": gpus, "max": most},
        st.sampled_from(["n1-standard-2", "n1-standard-8", "n1-highmem-8", "e2-medium"]),
        st.booleans(),
        st.sampled_from([0, 0, 1, 4]),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=6,
)
PODS = st.lists(
    st.tuples(
        st.sampled_from([0, 0.5, 1, 3, 7]),
        st.sampled_from([0, 1, 8, 40]),
        st.sampled_from([None, 1, 4]),
        st.booleans(),
    ),
    min_size=1,
    max_size=60,
)


@given(POOLS, PODS)
def test_every_pod_is_placed_within_capacity_or_has_a_reason(
    given_pools: list[dict[str, Any]], given_pods: list[tuple[float, float, int | None, bool]]
):
    pools = [
        pool(
            f"p{i}",
            each["kind"],
            spot=each["spot"],
            max=each["max"],
            gpus=each["gpus"],
            gpu_type="nvidia-tesla-t4",
        )
        for i, each in enumerate(given_pools)
    ]
    pods = [pod(f"a{i}", cpu, gib, gpus, spot=spot) for i, (cpu, gib, gpus, spot) in enumerate(given_pods)]
    result = place_pods(*pods, pools=pools)
    for each in pods:
        if each.name not in result.chosen:
            assert set(result.lacking[each.name]) == {first.name for first in pools}
            assert all(result.lacking[each.name].values())
            continue
        choice = result.chosen[each.name]
        assert holds(available(choice.pool), total_of(choice.claims))
        assert bool(choice.pool.gpus) == bool(each.claims[0].gpus)
        assert each.spot or not choice.pool.spot
    for first in pools:
        taken = [total_of(each.claims) for each in result.chosen.values() if each.pool is first]
        machines = result.machines.get(first.name, 0)
        assert machines <= (first.max or 0)
        assert not taken or holds(times(available(first), machines), sum(taken[1:], taken[0]))
