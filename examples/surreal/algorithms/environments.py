"""Several Gymnasium environments stepped in turn: fragments for agents, whole episodes for evaluators."""

from typing import Any

import gymnasium
import numpy as np

from algorithms import Arrays, Spaces
from algorithms.policies import Acted, Policy


def spaces(name: str) -> Spaces:
    """Return the sizes of the observations and actions of an environment."""
    environment = gymnasium.make(name)
    seen, done = environment.observation_space, environment.action_space
    discrete = isinstance(done, gymnasium.spaces.Discrete)
    return Spaces(int(np.prod(seen.shape)), int(done.n) if discrete else int(np.prod(done.shape)), discrete)


class Environments:
    """`count` environments that restart after each episode. Continuous actions are from -1 to 1."""

    def __init__(self, name: str, count: int, seed: int) -> None:
        self.each = [gymnasium.make(name, disable_env_checker=True) for _ in range(count)]
        self.spaces = spaces(name)
        self.space: Any = self.each[0].action_space
        self.observations = np.zeros((count, self.spaces.observations), np.float32)
        self.returns = np.zeros(count)
        self.finished: list[float] = []
        for number, environment in enumerate(self.each):
            self.observations[number], _ = environment.reset(seed=seed + number)

    def step(self, actions: np.ndarray) -> Arrays:
        """Step each environment; `next_observations` are those before an episode restarts."""
        count = len(self.each)
        rewards, terminated, ended = (np.zeros(count, np.float32) for _ in range(3))
        following = np.empty_like(self.observations)
        chosen = actions.tolist() if self.spaces.discrete else self._scaled(actions)
        for number, environment in enumerate(self.each):
            seen, reward, over, truncated, _ = environment.step(chosen[number])
            following[number], rewards[number], terminated[number] = seen, reward, over
            ended[number] = over or truncated
            self.returns[number] += reward
        before, self.observations = self.observations, following.copy()
        for number in np.flatnonzero(ended):
            self.finished.append(float(self.returns[number]))
            self.returns[number] = 0.0
            self.observations[number], _ = self.each[number].reset()
        return {
            "observations": before,
            "actions": actions,
            "rewards": rewards,
            "next_observations": following,
            "terminated": terminated,
            "ended": ended,
        }

    def _scaled(self, actions: np.ndarray) -> np.ndarray:
        """Return actions from -1 to 1 as the environment takes them, from `low` to `high`."""
        return self.space.low + (actions + 1) / 2 * (self.space.high - self.space.low)

    def fragment(
        self, policy: Policy, network: list[np.ndarray] | None, steps: int, random: np.random.Generator
    ) -> Arrays:
        """Return `steps` steps as arrays by step and environment; without a network, actions are random."""
        made: list[Arrays] = []
        for _ in range(steps):
            actions, log_probabilities = self._act(policy, network, random)
            made.append({**self.step(actions), "log_probabilities": log_probabilities})
        return {name: np.stack([each[name] for each in made]) for name in made[0]}

    def _act(self, policy: Policy, network: list[np.ndarray] | None, random: np.random.Generator) -> Acted:
        if network is None:
            return policy.random(len(self.each), self.spaces.actions, random)
        return policy.act(network, self.observations, random)


def evaluate(name: str, policy: Policy, network: list[np.ndarray], episodes: int, seed: int) -> np.ndarray:
    """Return the returns of whole episodes without exploration."""
    environments = Environments(name, episodes, seed)
    returns = np.full(episodes, np.nan)
    while np.isnan(returns).any():
        so_far = environments.returns.copy()
        stepped = environments.step(policy.best(network, environments.observations))
        first = (stepped["ended"] > 0) & np.isnan(returns)
        returns[first] = (so_far + stepped["rewards"])[first]
    return returns
