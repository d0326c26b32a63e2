"""Steps, fragments and updates a second of examples/surreal, beside caraml 0.10.0 and one process."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.caraml.sides import CACHE, install_peers

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
EXAMPLE = ROOT / "examples" / "surreal"
SERVICES = (
    "ps-frontend",
    "ps-backend",
    "parameter-publish",
    "collector-frontend",
    "collector-backend",
    "sampler-frontend",
    "sampler-backend",
    "prefetch-queue",
    "tensorplex",
    "loggerplex",
)
AGENTS = (1, 2, 4, 8)
STEPS_OF_A_FRAGMENT = 4 * 64  # environments and steps, as shared/settings.py has them
ROUNDS = int(os.environ.get("SURREAL_BENCH_ROUNDS", "3"))
SETTLE, SECONDS, DEADLINE = 2.0, 8.0, 120.0
ALONE = "one process"
# Untrained it holds the pole for 80 steps at most; what has learned for ten seconds, for more than this.
LEARNED = 150


@dataclass(frozen=True)
class Rates:
    """What one run did a second, and how many updates old the parameters were that agents acted by."""

    steps: float
    updates: float
    staleness: float

    @property
    def fragments(self) -> float:
        return self.steps / STEPS_OF_A_FRAGMENT


def main() -> None:
    """Every side in turn, three times, in 8 minutes on 2 idle cores; the medians."""
    install_peers()
    sides = {ALONE: alone}
    for agents in AGENTS:
        sides[f"ours, {agents}"] = lambda agents=agents: distributed("ours", agents)
        sides[f"caraml 0.10.0, {agents}"] = lambda agents=agents: distributed("original", agents)
    measured: dict[str, list[Rates]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, measure in sides.items():
            try:
                measured[name].append(measure())
            except subprocess.TimeoutExpired:
                print(f"{name}: nothing within {DEADLINE:.0f} s", file=sys.stderr, flush=True)
    print("| CartPole-v1, PPO, agents | steps/s | fragments/s | updates/s | staleness in updates |")
    print("|---|---|---|---|---|")
    for name, of in measured.items():
        print(row(name, of) if of else f"| {name} | - | - | - | - |", flush=True)


def row(name: str, of: list[Rates]) -> str:
    """The medians of some runs."""
    steps, fragments, updates, stale = (
        statistics.median(getattr(rates, figure) for rates in of)
        for figure in ("steps", "fragments", "updates", "staleness")
    )
    sent = "" if name == ALONE else f"{fragments:.1f}"
    return f"| {name} | {steps:,.0f} | {sent} | {updates:.1f} | {stale:.2f} |"


def alone() -> Rates:
    """The same learning in one process, between its first evaluation, which is short, and the next one."""
    words = [
        "single.py",
        "--seconds",
        DEADLINE / 2,
        "--evaluate-every",
        SETTLE + SECONDS,
        "--target",
        LEARNED,
    ]
    shown = run_in(EXAMPLE, [str(word) for word in words])
    lines = [line.replace(",", "") for line in shown.splitlines()]
    result = [re.findall(r"(\S+) (?:s |steps|updates)", line) for line in lines]
    (began, first, before), (ended, last, after) = (tuple(map(float, each)) for each in result[:2])
    return Rates((last - first) / (ended - began), (after - before) / (ended - began), 0.0)


def distributed(side: str, agents: int) -> Rates:
    """The roles as processes, without TensorBoard and evaluators, on one of the two libraries."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place) / "surreal"
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "runs"))
        shutil.copy(HERE / "rates.py", folder)
        if side == "original":
            shutil.copy(HERE / "original_channels.py", folder / "shared" / "channels.py")
        environment = variables() | {"PYTHONPATH": str(CACHE if side == "original" else ROOT)}
        for words in (
            ["parameter_server.py"],
            ["replay.py", "--agents", str(agents)],
            ["learner.py", "--agents", str(agents), "--checkpoint-every", "1000"],
            *(["agent.py", "--agents", str(agents), "--number", str(number)] for number in range(agents)),
        ):
            role = subprocess.Popen(
                [sys.executable, *words],
                cwd=folder,
                env=environment,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            stack.callback(end, role)
        heard = json.loads(run_in(folder, ["rates.py", str(SETTLE), str(SECONDS)], environment))
    learner = heard.pop("learner")
    steps = sum(statistics.mean(each["steps_per_second"]) for each in heard.values() if each)
    return Rates(steps, statistics.mean(learner["updates_per_second"]), statistics.mean(learner["staleness"]))


def variables() -> dict[str, str]:
    """The addresses, as symphony gives them, and one thread a process."""
    made = {**os.environ, "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    made["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in SERVICES]
        for service, probe in zip(SERVICES, probes, strict=True):
            name, port = service.upper().replace("-", "_"), probe.getsockname()[1]
            made |= {f"SYMPH_{name}_HOST": "127.0.0.1", f"SYMPH_{name}_BIND": "127.0.0.1"}
            made |= {f"SYMPH_{name}_PORT": str(port), f"SYMPH_{name}_ADDR": f"127.0.0.1:{port}"}
    return made


def run_in(folder: Path, words: list[str], environment: dict[str, str] | None = None) -> str:
    """What a program of the example prints."""
    made = environment or variables()
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=made,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def end(role: subprocess.Popen[bytes]) -> None:
    """End a role and its children."""
    os.killpg(role.pid, 9)
    role.wait()


if __name__ == "__main__":
    main()
