"""The same learning in one process, without messages, for comparison with the distributed form.

python single.py --environment CartPole-v1
"""

import time

import numpy as np
from algorithms import learning, policy_of
from algorithms.buffers import buffer
from algorithms.environments import Environments, evaluate
from shared.settings import Settings, chosen, parser

import symphony

EPISODES = 20


def run(settings: Settings, seconds: float) -> list[tuple[float, int, float]]:
    """Learn until the target is reached; return time, steps and mean return of each evaluation."""
    random = np.random.default_rng(settings.seed)
    count = settings.agents * settings.environments
    environments = Environments(settings.environment, count, 1000 * settings.seed)
    policy, algorithm = policy_of(environments.spaces), learning(settings, environments.spaces)
    kept = buffer(settings.replay, settings.capacity, settings.seed)
    state, curve, updates, evaluated = algorithm.initial(), [], 0, 0.0
    network = algorithm.policy(state)
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        known = network if kept.inserted >= settings.warmup else None
        kept.add(environments.fragment(policy, known, settings.steps, random))
        if kept.inserted < settings.warmup:
            continue
        per_update = settings.batch * settings.epochs
        batch = kept.sample(1 if settings.replay == "fifo" else per_update)
        assert batch is not None, "what is kept has reached the warmup"
        indices = batch.pop("indices", None)
        state, _, priorities = algorithm.learn(state, batch)
        if settings.replay == "prioritized" and indices is not None and priorities is not None:
            kept.prioritize(indices, priorities)
        network, updates = algorithm.policy(state), updates + 1
        if time.monotonic() - evaluated > settings.evaluate_every:
            evaluated = time.monotonic()
            returns = evaluate(settings.environment, policy, network, EPISODES, 10_000_000 + updates)
            curve.append((evaluated - began, kept.inserted, float(returns.mean())))
            passed, steps, mean = curve[-1]
            print(f"{passed:6.1f} s  {steps:8,} steps  {updates:6,} updates  return {mean:8.1f}", flush=True)
            symphony.report(mean_return=mean, seconds=round(passed, 1), steps=steps)
            if mean >= settings.target:
                break
    return curve


if __name__ == "__main__":
    options = parser()
    options.add_argument("--seconds", type=float, default=360.0)
    given = options.parse_args()
    run(chosen(given), given.seconds)
