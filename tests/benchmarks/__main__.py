"""Prints the benchmark table of `make bench`; words choose parts: everyday launching thousand caraml."""

from __future__ import annotations

import importlib
import os
import sys

from tests.benchmarks.timing import table

PARTS = ("everyday", "launching", "thousand")


def main(parts: list[str]) -> None:
    wanted = parts or [*PARTS, "caraml"]
    for part in wanted:
        print(f"{part}: load {os.getloadavg()[0]:.1f}", flush=True)
        if part == "caraml":
            importlib.import_module("tests.benchmarks.caraml.__main__").main()
        else:
            print(table(importlib.import_module(f"tests.benchmarks.{part}").rows()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
