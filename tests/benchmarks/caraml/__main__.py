"""`python -m tests.benchmarks.caraml`: ours, pyzmq alone with as many bytes, and caraml 0.10.0.

Each figure is the median of five runs, the sides interleaved run by run; a ratio is the median of the runs'
own ratios. The exit code is 0 only if ours is nowhere slower than 0.10.0.
"""

import os
import statistics
import sys

from tests.benchmarks.caraml.sides import install_peers, measure

RUNS = int(os.environ.get("CARAML_BENCH_RUNS", "5"))
ROWS = (
    ("push", "16 B", 100_000),
    ("push", "28 KB", 10_000),
    ("request", "16 B", 5000),
    ("request", "1.8 MB", 200),
    ("acknowledged", "16 B", 20_000),
    ("publish", "16 B", 50_000),
)


def main() -> int:
    install_peers()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; median of {RUNS}; us a message\n")
    print("| what | ours | pyzmq | 0.10.0 | ours / pyzmq | ours / 0.10.0 |\n|---|---|---|---|---|---|")
    slower = 0
    for pattern, payload, count in ROWS:
        sides = ("ours", "original") if pattern == "acknowledged" else ("ours", "raw", "original")
        figures: dict[str, list[float]] = {side: [] for side in ("ours", "raw", "original")}
        for _ in range(RUNS):
            for side in sides:
                figures[side].append(measure(side, pattern, payload, count) * 1e6)
        cells = [f"{statistics.median(f):,.1f}" if f else "-" for f in figures.values()]
        raw, original = (ratio(figures["ours"], figures[base]) for base in ("raw", "original"))
        slower += original > 1
        print(f"| {pattern} {payload} | {' | '.join(cells)} | {raw:.2f} | {original:.2f} |", flush=True)
    return 1 if slower else 0


def ratio(ours: list[float], base: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(ours, base, strict=True)) if base else float("nan")


if __name__ == "__main__":
    sys.exit(main())
