"""The interface of the algorithms: what an agent asks of one (numpy), and what the learner does (jax)."""

import importlib
from typing import Any, NamedTuple, Protocol

import numpy as np
from shared.settings import Settings

from algorithms.policies import Categorical, Policy, SquashedGaussian

Arrays = dict[str, np.ndarray]
State = Any  # a tree of arrays, which is also what a checkpoint holds


class Spaces(NamedTuple):
    """The shapes of the input and the output of a network."""

    observations: int
    actions: int
    discrete: bool


class Learning(Protocol):
    """An algorithm in the learner; `ppo.Ppo` and `sac.Sac` are the two."""

    def initial(self) -> State:
        """Untrained."""
        ...

    def policy(self, state: State) -> list[np.ndarray]:
        """The part that agents act by."""
        ...

    def learn(self, state: State, batch: Arrays) -> tuple[State, dict[str, float], np.ndarray | None]:
        """One update: the new state, what to plot of it, and for a prioritized replay the new priorities."""
        ...


def policy_of(spaces: Spaces) -> Policy:
    """Return the policy by which agents and evaluators act. It does not load jax."""
    return Categorical() if spaces.discrete else SquashedGaussian()


def learning(settings: Settings, spaces: Spaces) -> Learning:
    """The algorithm of a run."""
    if spaces.discrete != (settings.algorithm == "ppo"):
        actions = "discrete" if spaces.discrete else "continuous"
        raise SystemExit(
            f"surreal: {settings.algorithm} does not do {actions} actions ({settings.environment})."
        )
    module = importlib.import_module(f"algorithms.{settings.algorithm}")
    return getattr(module, settings.algorithm.capitalize())(settings, spaces)
