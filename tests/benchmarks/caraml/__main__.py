"""`python -m tests.benchmarks.caraml [ROW ...]`: the table G1-G16, each figure the median of five interleaved
runs.

Ours, raw pyzmq, and caraml 0.10.0 from its package, installed beside by the hash-locked
requirements/bench.txt.
"""

import os
import sys

from tests.benchmarks.caraml import memory, messages
from tests.benchmarks.caraml.sides import RUNS, install_peers
from tests.benchmarks.caraml.table import HEAD, measured

ROWS = {
    name: getattr(module, name)
    for module in (messages, memory)
    for name in vars(module)
    if name[0] == "g" and name[1:].isdigit()
}


def main(rows: list[str] | None = None) -> int:
    install_peers()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; median of {RUNS}\n\n{HEAD}")
    marks: list[str] = []
    for name in rows or sorted(ROWS, key=lambda name: int(name[1:])):
        for row in ROWS[name.lower()]():
            line, reached = measured(row)
            print(line, flush=True)
            marks += reached
    gates, stretches = len(marks) - marks.count("MISS"), marks.count("stretch")
    print(f"\n{gates} of {len(marks)} gates, {stretches} stretch goals; load {os.getloadavg()[0]:.1f}")
    return 0 if gates == len(marks) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
