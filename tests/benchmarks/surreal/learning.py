"""How long examples/surreal takes in tmux to learn both environments with five seeds, and a picture of it."""

from __future__ import annotations

import importlib
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

import yaml

from tests.sandbox import ROOT, Sandbox, clone_in, sandbox_in

ENVIRONMENTS = {"CartPole-v1": 475.0, "Pendulum-v1": -200.0}
SEEDS = range(5)
LONGEST = 360.0
FOLDER = ROOT / "examples" / "surreal"
PICTURE = FOLDER / "curve.png"


def main() -> None:
    """A row an environment, and examples/surreal/curve.png."""
    print("| 4 agents in tmux | wanted | learned | seconds from `symphony up`, seed by seed |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        runs: dict[str, list[Path]] = {}
        for environment, target in ENVIRONMENTS.items():
            took: list[float | None] = []
            for seed in SEEDS:
                kept = Path(place) / environment / f"seed {seed}"
                took.append(learn(environment, seed, kept))
                runs.setdefault(environment, []).append(kept)
            learned = [seconds for seconds in took if seconds is not None]
            figures = ", ".join("-" if seconds is None else f"{seconds:.0f}" for seconds in took)
            goal = f"{target:g} within {LONGEST:.0f} s"
            print(f"| {environment} | {goal} | {len(learned)} of {len(took)} | {figures} |", flush=True)
        sys.path.insert(0, str(FOLDER))
        importlib.import_module("plot").draw(PICTURE, runs, ENVIRONMENTS)


def learn(environment: str, seed: int, kept: Path) -> float | None:
    """The seconds until an evaluation of 20 episodes reached the target; None: not in time."""
    with tempfile.TemporaryDirectory() as place:
        clone = clone_in(Path(place))
        config = {
            "surreal:settings": {"environment": environment, "seed": seed},
            "surreal:tensorboardPort": 0,
        }
        (clone / "stacks" / "Pulumi.surreal.yaml").write_text(yaml.safe_dump({"config": config}))
        with sandbox_in(Path(place), folder=clone) as sandbox:
            took = until_reached(sandbox)
            sandbox.symphony("delete", "surreal", "-y")
        shutil.copytree(clone / "examples" / "surreal" / "runs" / "surreal", kept)
    return took


def until_reached(sandbox: Sandbox) -> float | None:
    began = time.monotonic()
    sandbox.symphony("up", "surreal", "-y")
    while (passed := time.monotonic() - began) < LONGEST:
        if re.search("^reached ", sandbox.symphony("logs", "surreal", "evaluator-0").out, re.M):
            return passed
        time.sleep(1)
    return None


if __name__ == "__main__":
    main()
