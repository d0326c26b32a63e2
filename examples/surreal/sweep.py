"""Creates the stacks of a sweep over seeds and learning rates, and prints a table of results. From the root:

python examples/surreal/sweep.py make --seeds 0 1 2 --learning-rates 0.0003 0.001
symphony up 'sweep.*' -y
python examples/surreal/sweep.py table
symphony delete-batch 'sweep.*' -y
"""

import argparse
import itertools
import re
import subprocess
from pathlib import Path

import yaml

STACKS = Path(__file__).parents[2] / "stacks"
FILES = "Pulumi.sweep.*.yaml"
EVALUATION = re.compile(r"(?P<seconds>\S+) s +(?P<steps>\S+) steps .* return +(?P<mean>\S+)")


def make(environment: str, seeds: list[int], learning_rates: list[float]) -> None:
    """Write a settings file for each stack, and remove those of an earlier sweep."""
    for file in STACKS.glob(FILES):
        file.unlink()
    for rate, seed in itertools.product(learning_rates, seeds):
        settings = {"environment": environment, "learning_rate": rate, "seed": seed}
        file = STACKS / f"Pulumi.sweep.lr{rate:g}-seed{seed}.yaml"
        file.write_text(yaml.safe_dump({"config": {"sweep:settings": settings}}))
    print(f"{len(seeds) * len(learning_rates)} stacks: symphony up 'sweep.*'")


def table() -> None:
    """Print the last evaluation of each stack."""
    print(f"{'stack':28} {'learning rate':>13} {'seed':>5} {'return':>8} {'seconds':>8} {'steps':>10}")
    for file in sorted(STACKS.glob(FILES)):
        stack = file.name.removeprefix("Pulumi.").removesuffix(".yaml")
        settings = yaml.safe_load(file.read_text())["config"]["sweep:settings"]
        words = ["symphony", "logs", stack, "run", "-t", "1"]
        printed = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60).stdout
        result = EVALUATION.search(printed)
        mean, seconds, steps = result.group("mean", "seconds", "steps") if result else ("-", "-", "-")
        rate, seed = settings["learning_rate"], settings["seed"]
        print(f"{stack:28} {rate:13g} {seed:5} {mean:>8} {seconds:>8} {steps:>10}")


def main() -> None:
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("table")
    making = verbs.add_parser("make")
    making.add_argument("--environment", default="CartPole-v1")
    making.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    making.add_argument("--learning-rates", type=float, nargs="+", default=[3e-4, 1e-3])
    given = parser.parse_args()
    if given.verb == "table":
        table()
    else:
        make(given.environment, given.seeds, given.learning_rates)


if __name__ == "__main__":
    main()
