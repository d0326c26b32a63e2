"""Small networks as a list of arrays (weights, biases, weights, ...), the same for numpy and for jax."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np


def layers(random: np.random.Generator, sizes: Sequence[int], last: float = 1.0) -> list[np.ndarray]:
    """Return orthogonal weights, scaled by `last` in the last layer, and zero biases."""
    made: list[np.ndarray] = []
    for number, (inputs, outputs) in enumerate(pairwise(sizes)):
        tall, wide = max(inputs, outputs), min(inputs, outputs)
        basis, _ = np.linalg.qr(random.normal(size=(tall, wide)))
        scale = last if number == len(sizes) - 2 else np.sqrt(2)
        weights = basis if inputs >= outputs else basis.T
        made += [(scale * weights).astype(np.float32), np.zeros(outputs, np.float32)]
    return made


def forward(network: Sequence[Any], inputs: Any, tanh: Callable[[Any], Any] = np.tanh) -> Any:
    """Return the outputs for a batch of inputs; differentiable with `tanh=jax.numpy.tanh`."""
    for number in range(0, len(network) - 2, 2):
        inputs = tanh(inputs @ network[number] + network[number + 1])
    return inputs @ network[-2] + network[-1]
