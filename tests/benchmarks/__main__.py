"""Prints the benchmark table of `make bench`; words choose parts, see PARTS and OTHERS."""

from __future__ import annotations

import importlib
import os
import signal
import sys

from tests.benchmarks.timing import table
from toolchain.kubernetes import cluster

PARTS = ("everyday", "commands", "launching", "thousand", "kubernetes", "gke", "images")
# These print tables of their own.
OTHERS = {
    "surreal": "tests.benchmarks.surreal.throughput",
    "learning": "tests.benchmarks.surreal.learning",
    "caraml": "tests.benchmarks.caraml.__main__",
}


def main(parts: list[str]) -> None:
    # Begun with `&`, a shell has it ignored, and the engine waits 5 s for each plugin that inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    wanted = parts or [*PARTS, *OTHERS]
    for part in wanted:
        print(f"{part}: load {os.getloadavg()[0]:.1f}", flush=True)
        if part in ("kubernetes", "gke", "images") and (reason := cluster.impossible()):
            print(f"left out: {reason}", flush=True)
        elif part in OTHERS:
            importlib.import_module(OTHERS[part]).main()
        else:
            print(table(importlib.import_module(f"tests.benchmarks.{part}").rows()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
