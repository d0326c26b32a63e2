"""How many machines of one pool a number of pods need, and whether the scheduler is sure to find that."""

from __future__ import annotations

import math
from collections import Counter

from symphony.placement.pool import Amounts

_Tuple = tuple[int, ...]
_MOST_SUMS = 500
# Kinds of pods times machines: so much is packed again in a pool, until that takes longer than it is worth.
_MOST_REPACKED = 50_000


class Packed:
    """The pods of one pool, on as few machines as they go on: room is that of one machine.

    most: how many machines there may be; None: any number.
    """

    def __init__(self, room: Amounts, most: int | None) -> None:
        self._room = _tuple(room)
        self._most = most
        self._pods: Counter[_Tuple] = Counter()
        # free room -> how many machines have just that.
        self._free: Counter[_Tuple] = Counter()
        self._sum: _Tuple = (0, 0, 0, 0)
        # What is as large as one of these finds no place either.
        self._refused: list[_Tuple] = []
        self._repacked_so_far = 0

    @property
    def machines(self) -> int:
        """How many are needed."""
        return min(self._free.total(), self._repacked().total())

    @property
    def is_tight(self) -> bool:
        """Whether one of the pods may find no place, as the others lie, however the scheduler takes them."""
        if self._most is None or not self._pods:
            return False
        every = sorted(self._pods, key=self._share, reverse=True)
        # One that is as large as the largest of all in each way, for a start.
        largest = tuple(map(max, zip(*every, strict=True)))
        return self._blocked_for(largest) >= self._most and any(
            self._blocked_for(pod) >= self._most for pod in every
        )

    def _blocked_for(self, pod: _Tuple) -> int:
        """The most machines on which the others can leave it no room.

        Those on a machine without room for it have, of some kind, at least what is `least` together: each
        counts for its part of that.
        """
        others = self._pods - Counter([pod])
        least = [
            _least({other[kind] for other in others}, have - take + 1, have)
            for kind, (have, take) in enumerate(zip(self._room, pod, strict=True))
        ]
        parts = (
            number * max(take / low for take, low in zip(other, least, strict=True))
            for other, number in others.items()
        )
        whole = (
            sum(other[kind] * number for other, number in others.items()) // low
            for kind, low in enumerate(least)
        )
        return int(min(sum(parts) + 1e-9, sum(whole)))

    def add(self, amounts: Amounts) -> bool:
        """Put one more pod there; whether there is room for it."""
        pod = _tuple(amounts)
        if any(_holds(pod, each) for each in self._refused):
            return False
        self._pods[pod] += 1
        if self._fill(self._free, pod) or self._fits_repacked(pod):
            self._sum = _less(self._sum, pod, -1)
            return True
        self._pods[pod] -= 1
        if not self._pods[pod]:
            del self._pods[pod]
        self._refused = [each for each in self._refused if not _holds(each, pod)] + [pod]
        return False

    def _fits_repacked(self, pod: _Tuple) -> bool:
        """Whether all go on when the largest are packed first; they are, then."""
        most = self._most or 0
        together = zip(self._sum, pod, self._room, strict=True)
        if any(taken + more > have * most for taken, more, have in together):
            return False
        self._repacked_so_far += len(self._pods) * len(self._free)
        if self._repacked_so_far > _MOST_REPACKED:
            return False
        again = self._repacked()
        if again.total() > most:
            return False
        self._free = again
        return True

    def _fill(self, free: Counter[_Tuple], pod: _Tuple) -> bool:
        """Take the room from the fullest machine that has it, else from a new one."""
        best = min((each for each in free if _holds(each, pod)), default=None)
        if best is None:
            if self._most is not None and free.total() >= self._most:
                return False
            best = self._room
        else:
            free[best] -= 1
            if not free[best]:
                del free[best]
        free[_less(best, pod)] += 1
        return True

    def _repacked(self) -> Counter[_Tuple]:
        """All pods again, the largest first, however many machines that takes."""
        free: Counter[_Tuple] = Counter()
        for pod in sorted(self._pods, key=self._share, reverse=True):
            left = self._pods[pod]
            for room in sorted(each for each in free if _holds(each, pod)):
                times = _times(room, pod)
                whole, rest = divmod(min(left, free[room] * times), times)
                left -= whole * times + rest
                for taken, number in ((times, whole), (rest, min(rest, 1))):
                    if number:
                        free[room] -= number
                        free[_less(room, pod, taken)] += number
            times = _times(self._room, pod)
            whole, rest = divmod(left, times)
            free[_less(self._room, pod, times)] += whole
            free[_less(self._room, pod, rest)] += min(rest, 1)
            for room in [room for room, number in free.items() if not number]:
                del free[room]
        return free

    def _share(self, pod: _Tuple) -> float:
        """The part of a machine that a pod takes, of what it takes most of."""
        return max((take / have for take, have in zip(pod, self._room, strict=True) if have), default=0.0)


def _tuple(amounts: Amounts) -> _Tuple:
    return (amounts.cpu, amounts.memory, amounts.gpus, amounts.pods)


def _holds(room: _Tuple, pod: _Tuple) -> bool:
    return room[0] >= pod[0] and room[1] >= pod[1] and room[2] >= pod[2] and room[3] >= pod[3]


def _less(room: _Tuple, pod: _Tuple, times: int = 1) -> _Tuple:
    return tuple(have - take * times for have, take in zip(room, pod, strict=True))


def _times(room: _Tuple, pod: _Tuple) -> int:
    """How many of these go into the room; each takes one of its pods at least."""
    return min(have // take for have, take in zip(room, pod, strict=True) if take)


def _least(sizes: set[int], low: int, high: int) -> float:
    """The least that some of these come to within the bounds; infinite where they never do."""
    sums = {0}
    for size in sizes - {0}:
        new = sums
        while new := {each + size for each in new if each + size <= high} - sums:
            sums |= new
            if len(sums) > _MOST_SUMS:
                return low
    return min((each for each in sums if each >= low), default=math.inf)
