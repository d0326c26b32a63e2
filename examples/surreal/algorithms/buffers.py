"""Buffers of a replay shard: fragments that are used once, or transitions that are sampled."""

from collections import deque
from typing import Protocol

import numpy as np

from algorithms import Arrays

PRIORITY_POWER = 0.6
WEIGHT_POWER = 0.4


class Buffer(Protocol):
    """Stores fragments, and samples for the learner."""

    inserted: int

    def add(self, fragment: Arrays) -> None:
        """Store a fragment; drop the oldest if there is no space."""
        ...

    def sample(self, count: int) -> Arrays | None:
        """Return up to `count` fragments, or `count` transitions with repetition; None if none is stored."""
        ...

    def prioritize(self, indices: np.ndarray, priorities: np.ndarray) -> None:
        """Set the priorities of transitions that the learner was given."""
        ...


def buffer(kind: str, capacity: int, seed: int) -> Buffer:
    """Return a buffer of a kind with a capacity in transitions."""
    return Fragments(capacity) if kind == "fifo" else Transitions(capacity, kind == "prioritized", seed)


class Fragments:
    """The newest fragments, each returned once; the second axis of a sample has all their environments."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.inserted, self.held = capacity, 0, 0
        self.waiting: deque[Arrays] = deque()

    def add(self, fragment: Arrays) -> None:
        self.waiting.append(fragment)
        self.inserted += fragment["rewards"].size
        self.held += fragment["rewards"].size
        while self.held > self.capacity:
            self.held -= self.waiting.popleft()["rewards"].size

    def sample(self, count: int) -> Arrays | None:
        taken = [self.waiting.popleft() for _ in range(min(count, len(self.waiting)))]
        if not taken:
            return None
        self.held -= sum(each["rewards"].size for each in taken)
        return {name: np.concatenate([each[name] for each in taken], axis=1) for name in taken[0]}

    def prioritize(self, indices: np.ndarray, priorities: np.ndarray) -> None:
        raise ValueError("fragments have no priorities")


class Transitions:
    """A ring of transitions, sampled uniformly or by priority; new ones get the highest priority."""

    def __init__(self, capacity: int, prioritized: bool, seed: int) -> None:
        self.capacity, self.prioritized, self.inserted = capacity, prioritized, 0
        self.random = np.random.default_rng(seed)
        self.ring: Arrays = {}
        self.priorities = np.zeros(capacity)
        self.highest = 1.0

    def add(self, fragment: Arrays) -> None:
        flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in fragment.items()}
        count = len(flat["rewards"])
        places = np.arange(self.inserted, self.inserted + count) % self.capacity
        for name, values in flat.items():
            if name not in self.ring:
                self.ring[name] = np.zeros((self.capacity, *values.shape[1:]), values.dtype)
            self.ring[name][places] = values
        self.priorities[places] = self.highest
        self.inserted += count

    def sample(self, count: int) -> Arrays | None:
        size = min(self.inserted, self.capacity)
        if size == 0:
            return None
        if self.prioritized:
            sums = np.cumsum(self.priorities[:size])
            indices = np.searchsorted(sums, self.random.random(count) * sums[-1], side="right")
            indices = np.minimum(indices, size - 1)
            weights = (size * self.priorities[indices] / sums[-1]) ** -WEIGHT_POWER
            weights = (weights / weights.max()).astype(np.float32)
        else:
            indices, weights = self.random.integers(size, size=count), np.ones(count, np.float32)
        return {
            **{name: ring[indices] for name, ring in self.ring.items()},
            "indices": indices,
            "weights": weights,
        }

    def prioritize(self, indices: np.ndarray, priorities: np.ndarray) -> None:
        self.priorities[indices] = (priorities + 1e-3) ** PRIORITY_POWER
        self.highest = max(self.highest, float(self.priorities[indices].max()))
