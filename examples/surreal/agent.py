"""Acts by the newest parameters and sends fragments of what happened; `agent-*` of the stack."""

import numpy as np
from algorithms import policy_of
from algorithms.environments import Environments
from parameter_server import Parameters
from shared.channels import Reports, pusher
from shared.children import run_all
from shared.settings import Settings, chosen, parser


def act(settings: Settings, number: int) -> None:
    """One agent, for ever."""
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


def main() -> None:
    options = parser()
    options.add_argument("--number", type=int, default=0, help="which agent this is")
    options.add_argument("--batch-agents", type=int, default=1, help="how many from there on")
    given = options.parse_args()
    if given.batch_agents == 1:
        act(chosen(given), given.number)
    last = min(given.number + given.batch_agents, chosen(given).agents)
    run_all(act, [(chosen(given), number) for number in range(given.number, last)])


if __name__ == "__main__":
    main()
