"""Starts the processes of one side of a row and measures them."""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ROLES = Path(__file__).with_name("roles.py")
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "symphony" / "bench-peers"
RUNS = int(os.environ.get("CARAML_BENCH_RUNS", "5"))
ALL = ("ours", "raw", "original")


def install_peers() -> None:
    if not (CACHE / "caraml-0.10.0.dist-info").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
        requirements = ROOT / "requirements" / "bench.txt"
        subprocess.run([*command, "--target", str(CACHE), "-r", str(requirements)], check=True)


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


class Role:
    def __init__(self, side: str, role: str, o: dict) -> None:
        paths = {"ours": [str(ROOT)], "raw": [str(ROOT)], "original": [str(CACHE)]}[side]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        self.process = subprocess.Popen(
            [sys.executable, str(ROLES), side, role, json.dumps(o)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=tempfile.gettempdir(),
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def line(self) -> str:
        line = self.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"{self.process.args} ended with {self.process.wait(5)}")
        return line

    def ready(self) -> None:
        while self.line() != "ready":  # the original prints
            pass

    def go(self, word: str = "") -> None:
        self.stdin.write(word + "\n")
        self.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.stdin.close()
        self.stdout.close()


def measure(
    side: str, producer: str, consumer: str, o: dict, consumers: int = 1, timer: str = "consumer"
) -> float:
    """Seconds per message (of all consumers together)."""
    o = {"address": free_address(), **o}
    binds_first = consumer != "subscribe"
    roles = [Role(side, consumer, o) for _ in range(consumers)] if binds_first else []
    try:
        for role in roles:
            role.ready()
        made = Role(side, producer, o)
        roles.append(made)
        made.ready()
        if not binds_first:
            others = [Role(side, consumer, o) for _ in range(consumers)]
            roles += others
            for role in others:
                role.ready()
            time.sleep(0.5)
        made.go()
        if timer == "producer":
            return float(made.line())
        figures = [float(role.line()) for role in roles if role is not made]
        return 1 / sum(1 / figure for figure in figures)
    finally:
        for role in roles:
            role.end()


def interleaved(variants: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Each variant RUNS times, one after the other in every run: {name: [figures]}."""
    figures: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(RUNS):
        for name, call in variants.items():
            figures[name].append(call())
    return figures


def ratio(figures: dict[str, list[float]], base: str, name: str = "ours") -> float:
    """How many times as fast as the base: the median of the runs' own ratios."""
    return statistics.median(b / f for b, f in zip(figures[base], figures[name], strict=True))


def pushes(o: dict, sides: tuple[str, ...] = ALL) -> dict[str, Callable[[], float]]:
    """Seconds a message pushed and pulled, of each side."""
    return {side: lambda side=side: measure(side, "push", "pull", o) for side in sides}


def asks(o: dict, sides: tuple[str, ...] = ALL) -> dict[str, Callable[[], float]]:
    """Seconds a request and its answer, of each side."""
    return {side: lambda side=side: measure(side, "ask", "serve", o, timer="producer") for side in sides}
