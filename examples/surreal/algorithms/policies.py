"""Policies of agents in numpy: faster than jax for such small networks, and quick to start."""

from typing import Protocol

import numpy as np

from algorithms.networks import forward

Acted = tuple[np.ndarray, np.ndarray]


class Policy(Protocol):
    """Chooses actions with a network."""

    def act(self, network: list[np.ndarray], observations: np.ndarray, random: np.random.Generator) -> Acted:
        """Return exploratory actions and their log probabilities, zeros if the algorithm needs none."""
        ...

    def best(self, network: list[np.ndarray], observations: np.ndarray) -> np.ndarray:
        """Return the best actions, for evaluation."""
        ...

    def random(self, count: int, actions: int, random: np.random.Generator) -> Acted:
        """Return uniformly random actions."""
        ...


class Categorical:
    """Discrete actions; the network gives a logit for each."""

    def act(self, network: list[np.ndarray], observations: np.ndarray, random: np.random.Generator) -> Acted:
        logits = forward(network, observations)
        # The argmax of logits plus Gumbel noise is a sample of the softmax.
        actions = (logits - np.log(random.exponential(size=logits.shape))).argmax(axis=1)
        peaks = logits.max(axis=1, keepdims=True)
        totals = peaks[:, 0] + np.log(np.exp(logits - peaks).sum(axis=1))
        return actions, (logits[np.arange(len(actions)), actions] - totals).astype(np.float32)

    def best(self, network: list[np.ndarray], observations: np.ndarray) -> np.ndarray:
        return forward(network, observations).argmax(axis=1)

    def random(self, count: int, actions: int, random: np.random.Generator) -> Acted:
        return random.integers(actions, size=count), np.full(count, -np.log(actions), np.float32)


class SquashedGaussian:
    """Continuous actions from -1 to 1; the network gives means and logarithmic deviations, before tanh."""

    def act(self, network: list[np.ndarray], observations: np.ndarray, random: np.random.Generator) -> Acted:
        means, deviations = np.split(forward(network, observations), 2, axis=1)
        noise = random.normal(size=means.shape).astype(np.float32)
        # SAC is off-policy and needs no probabilities.
        return np.tanh(means + np.exp(np.clip(deviations, -5, 2)) * noise), np.zeros(len(means), np.float32)

    def best(self, network: list[np.ndarray], observations: np.ndarray) -> np.ndarray:
        return np.tanh(np.split(forward(network, observations), 2, axis=1)[0])

    def random(self, count: int, actions: int, random: np.random.Generator) -> Acted:
        return random.uniform(-1, 1, (count, actions)).astype(np.float32), np.zeros(count, np.float32)
