"""Packs the pods of one pool on machines by first fit, the fullest machine that has room first."""

from __future__ import annotations

from collections import Counter

from symphony.placement.pool import Amounts


class Packing:
    """The machines of one pool and the room that is left on them.

    Args:
        room: What one machine offers.
        most: The most machines; None for any number.
    """

    def __init__(self, room: Amounts, most: int | None) -> None:
        self._room = room
        self._most = most
        self._sizes: set[Amounts] = set()
        # free room -> the number of machines that have just that
        self._free: Counter[Amounts] = Counter()

    @property
    def machines(self) -> int:
        """The number of machines in use."""
        return self._free.total()

    @property
    def is_tight(self) -> bool:
        """True at the maximum with unlike pods, some of which the scheduler may leave Pending."""
        return self._most is not None and self.machines >= self._most and len(self._sizes) > 1

    def add(self, pod: Amounts) -> bool:
        """Put one more pod on a machine. Return whether there is room for it."""
        fullest = min((room for room in self._free if room.holds(pod)), default=None, key=_order)
        if fullest is None:
            if self._most is not None and self.machines >= self._most:
                return False
            fullest = self._room
        else:
            self._free[fullest] -= 1
            if not self._free[fullest]:
                del self._free[fullest]
        self._free[fullest - pod] += 1
        self._sizes.add(pod)
        return True


def _order(room: Amounts) -> tuple[int, ...]:
    return room.gpus, room.memory, room.cpu, room.pods
