"""The interface of the algorithms: policies for agents (numpy), and learning (jax)."""

import importlib
from typing import Any, NamedTuple, Protocol

import numpy as np
from shared.settings import Settings

from algorithms.policies import Categorical, Policy, SquashedGaussian

Arrays = dict[str, np.ndarray]
State = Any  # a tree of arrays, which is also what a checkpoint holds


class Spaces(NamedTuple):
    """The number of values in an observation, and of actions: choices if discrete, else values."""

    observations: int
    actions: int
    discrete: bool


class Learning(Protocol):
    """An algorithm in the learner: `ppo.Ppo` or `sac.Sac`."""

    def initial(self) -> State:
        """Return an untrained state."""
        ...

    def policy(self, state: State) -> list[np.ndarray]:
        """Return the network with which agents act."""
        ...

    def learn(self, state: State, batch: Arrays) -> tuple[State, dict[str, float], np.ndarray | None]:
        """Return the next state, numbers to plot, and new priorities.

        Only a prioritized replay uses the priorities; those of PPO are None.
        """
        ...


def policy_of(spaces: Spaces) -> Policy:
    """Return the policy of agents and evaluators, without loading jax."""
    return Categorical() if spaces.discrete else SquashedGaussian()


def learning(settings: Settings, spaces: Spaces) -> Learning:
    """Return the algorithm of a run."""
    if spaces.discrete != (settings.algorithm == "ppo"):
        actions = "discrete" if spaces.discrete else "continuous"
        raise SystemExit(
            f"surreal: {settings.algorithm} does not do {actions} actions ({settings.environment})."
        )
    module = importlib.import_module(f"algorithms.{settings.algorithm}")
    return getattr(module, settings.algorithm.capitalize())(settings, spaces)
