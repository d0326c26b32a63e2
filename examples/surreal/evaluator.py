"""Plays whole episodes with the newest parameters and prints their return; `evaluator-*` of the stack."""

import time

from algorithms import policy_of
from algorithms.environments import evaluate, spaces
from parameter_server import Parameters
from shared.channels import Reports
from shared.children import run_role
from shared.settings import Settings

EPISODES = 20
FIRST_SEED = 1_000_000


def play(settings: Settings, number: int) -> None:
    """Evaluate forever; report once when the target is reached."""
    reports, parameters = Reports(f"evaluator-{number}"), Parameters()
    policy = policy_of(spaces(settings.environment))
    began, evaluations, reached = time.monotonic(), 0, False
    while True:
        # If none come in that time, the same parameters are evaluated again.
        parameters.wait_for_newer(settings.evaluate_every)
        # Seeds that no other evaluator and no agent uses.
        seed = FIRST_SEED * (100 * settings.seed + number + 1) + EPISODES * evaluations
        returns = evaluate(settings.environment, policy, parameters.network, EPISODES, seed)
        evaluations += 1
        passed, mean = time.monotonic() - began, float(returns.mean())
        reports.say(
            f"{passed:6.1f} s  update {parameters.version:6,}  {parameters.steps:9,} steps  "
            f"return {mean:8.1f} ({returns.min():.0f} to {returns.max():.0f}) over {EPISODES} episodes"
        )
        reports.plot(parameters.steps, evaluation=mean)
        if mean >= settings.target and not reached:
            reached = True
            reports.say(f"reached {settings.target:g} after {passed:.1f} s and {parameters.steps:,} steps")
        time.sleep(max(0.0, evaluations * settings.evaluate_every - (time.monotonic() - began)))


if __name__ == "__main__":
    run_role(play)
