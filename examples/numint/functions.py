"""Functions to integrate from 0 to 1, each with its exact integral.

Reducer and worker read them, and `FUNCTIONS` in stacks/numint.py repeats their names.
"""

import math
from collections.abc import Callable

import numpy as np

Integrand = Callable[[np.ndarray], np.ndarray]

FUNCTIONS: dict[str, tuple[Integrand, float]] = {
    "pi": (lambda x: 4.0 / (1.0 + x * x), math.pi),
    "log": (lambda x: 1.0 / (1.0 + x), math.log(2.0)),
    "sine": (lambda x: np.sin(math.pi * x), 2.0 / math.pi),
}
CHUNK = 1 << 18


def integral(name: str, first: int, last: int, steps: int) -> float:
    """Return the part of the midpoint sum over [0, 1] for points first..last-1 of `steps`."""
    function, _ = FUNCTIONS[name]
    parts: list[float] = []
    for begin in range(first, last, CHUNK):
        points = (np.arange(begin, min(begin + CHUNK, last), dtype=np.float64) + 0.5) / steps
        parts.append(float(np.sum(function(points))))
    return math.fsum(parts) / steps
