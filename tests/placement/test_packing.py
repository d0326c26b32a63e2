"""Best-fit packing: within the capacity of machines and the size of the pool."""

from hypothesis import given
from hypothesis import strategies as st

from symphony.placement.planner import Packing
from symphony.placement.pool import Amounts

ROOM = Amounts(8000, 30 * 2**30, 4, 20)
PODS = st.lists(
    st.builds(
        Amounts,
        st.sampled_from([0, 500, 1000, 2600, 4000, 8000]),
        st.sampled_from([0, 2**30, 10 * 2**30, 16 * 2**30]),
        st.sampled_from([0, 0, 1, 2]),
        st.just(1),
    ),
    max_size=30,
)


@given(PODS, st.integers(1, 6))
def test_packing_never_exceeds_machines_or_their_capacity(pods: list[Amounts], most: int):
    packing = Packing(ROOM, most)
    taken = [pod for pod in pods if packing.add(pod)]
    assert packing.machines <= min(most, len(taken))
    for kind in ("cpu", "memory", "gpus", "pods"):
        assert sum(getattr(pod, kind) for pod in taken) <= getattr(ROOM, kind) * packing.machines


def test_equal_pods_are_never_tight():
    packing = Packing(ROOM, 2)
    assert [packing.add(Amounts(4000, pods=1)) for _ in range(5)] == [True] * 4 + [False]
    assert not packing.is_tight


def test_different_pods_are_tight_at_the_maximum_of_machines():
    packing = Packing(ROOM, 2)
    packing.add(Amounts(4000, pods=1))
    packing.add(Amounts(2000, pods=1))
    assert not packing.is_tight
    packing.add(Amounts(8000, pods=1))
    assert packing.is_tight
