"""Acts with the newest parameters and sends fragments of its steps; `agent-*` of the stack."""

import numpy as np
from algorithms import policy_of
from algorithms.environments import Environments
from parameter_server import Parameters
from shared.channels import Reports, pusher
from shared.children import run_role
from shared.settings import Settings


def act(settings: Settings, number: int) -> None:
    """Run one agent forever."""
    reports, parameters = Reports(f"agent-{number}"), Parameters()
    collector = pusher("collector-frontend")
    seed = 10_000 * settings.seed + 100 * number
    environments = Environments(settings.environment, settings.environments, seed)
    policy, random = policy_of(environments.spaces), np.random.default_rng(seed)
    reports.say(f"acts in {settings.environments} {settings.environment}")
    made, reported = 0, 0
    while True:
        exploring = made < settings.warmup / settings.agents
        if not exploring:
            parameters.wait_for_newer(settings.patience)
        network = None if exploring else parameters.network
        fragment = environments.fragment(policy, network, settings.steps, random)
        fragment["versions"] = np.full(fragment["rewards"].shape, parameters.version, np.float32)
        collector.push(fragment)
        made += fragment["rewards"].size
        if passed := reports.every(2.0):
            scalars = {"steps_per_second": (made - reported) / passed}
            if environments.finished:
                scalars["return"] = float(np.mean(environments.finished))
                environments.finished.clear()
            reports.plot(parameters.steps, **scalars)
            reported = made


if __name__ == "__main__":
    run_role(act)
