"""Settings of a run, read from the command line of each role; the defaults suit the environment."""

import argparse
import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Settings of one run. Times are in seconds; an update is one call of `Learning.learn`."""

    environment: str = "CartPole-v1"
    algorithm: str = "ppo"
    seed: int = 0
    folder: str = "runs"
    target: float = 475.0
    """The mean return of an evaluation that counts as learned."""
    agents: int = 4
    environments: int = 4
    """How many environments an agent steps in turn."""
    steps: int = 64
    """How many steps of each environment make a fragment, which an agent sends as one."""
    patience: float = 0.5
    """How long an agent waits for newer parameters before it makes another fragment with the old ones."""
    replay: str = "fifo"
    """fifo: each fragment is learned from once; uniform, prioritized: transitions are kept and drawn."""
    shards: int = 1
    """Processes that keep the replay."""
    capacity: int = 50_000
    """Transitions (fifo: steps) that the shards keep together."""
    warmup: int = 0
    """Steps before the first update, made with random actions."""
    learning_rate: float = 1e-3
    discount: float = 0.99
    hidden: int = 64
    batch: int = 256
    """Transitions of a batch (PPO: of a minibatch)."""
    epochs: int = 10
    """PPO: passes over the fragments of an update. SAC: batches of an update."""
    updates_per_step: float = 1.0
    """SAC: batches learned from for each step; the learner waits for agents that are slower."""
    evaluate_every: float = 3.0
    checkpoint_every: float = 5.0


PRESETS: dict[str, dict[str, object]] = {
    "CartPole-v1": {},
    "Pendulum-v1": {
        "algorithm": "sac",
        "target": -200.0,
        "environments": 1,
        "steps": 16,
        "replay": "uniform",
        "warmup": 1000,
        "epochs": 64,
    },
}


def parser() -> argparse.ArgumentParser:
    """Return a parser with an option for each field."""
    made = argparse.ArgumentParser()
    for field in dataclasses.fields(Settings):
        made.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default))
    return made


def chosen(arguments: argparse.Namespace) -> Settings:
    """Return the settings: given options, else the preset of the environment, else the default."""
    given = {field.name: getattr(arguments, field.name) for field in dataclasses.fields(Settings)}
    given = {name: value for name, value in given.items() if value is not None}
    preset = PRESETS.get(given.get("environment", Settings.environment), {})
    return Settings(**{**preset, **given})
