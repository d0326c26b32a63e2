"""Packing: never more than a machine holds, nor more machines than there may be; sure where it says so."""

import random

from hypothesis import given
from hypothesis import strategies as st

from symphony.placement.packing import Packed
from symphony.placement.pool import Amounts
from tests.placement.fleet import holds

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


@given(PODS, st.integers(1, 6), st.integers(0, 9))
def test_what_is_sure_goes_on_in_any_order(pods: list[Amounts], most: int, seed: int):
    """Whichever machine with room a scheduler takes, as long as it is the emptiest or any at random."""
    packed = Packed(ROOM, most)
    taken = [pod for pod in pods if packed.add(pod)]
    assert packed.machines <= most
    if packed.is_tight:
        return
    chance = random.Random(seed)
    free = [ROOM] * most
    for pod in taken:
        able = [i for i, room in enumerate(free) if holds(room, pod)]
        assert able
        i = max(able, key=lambda i: (free[i].cpu / ROOM.cpu + free[i].memory / ROOM.memory, chance.random()))
        free[i] -= pod


@given(PODS, st.integers(1, 6))
def test_what_is_refused_exceeds_the_machines(pods: list[Amounts], most: int):
    """One that is refused did not go on with a machine less in use."""
    packed = Packed(ROOM, most)
    for pod in pods:
        used = packed.machines
        if not packed.add(pod):
            assert used == most


@given(PODS)
def test_machines_hold_what_they_are_given(pods: list[Amounts]):
    packed = Packed(ROOM, None)
    assert all(packed.add(pod) for pod in pods)
    for kind in ("cpu", "memory", "gpus", "pods"):
        assert sum(getattr(pod, kind) for pod in pods) <= packed.machines * getattr(ROOM, kind)
    assert packed.machines <= len(pods)


def test_a_spreading_scheduler_may_find_no_place():
    """Four halves go on two machines one by one, and the whole finds none."""
    packed = Packed(Amounts(8, 8, 0, 10), 2)
    for cpu in (2, 2, 8):
        assert packed.add(Amounts(cpu, 1, 0, 1))
    assert packed.is_tight
    roomy = Packed(Amounts(8, 8, 0, 10), 3)
    for cpu in (2, 2, 8):
        assert roomy.add(Amounts(cpu, 1, 0, 1))
    assert not roomy.is_tight
