"""Stands in for tensorplex and loggerplex of examples/surreal and prints what the roles measured, as JSON.

rates.py SETTLE SECONDS: after the learner's first report and SETTLE seconds, of so many seconds.
"""

import json
import os
import sys
import time
from collections import defaultdict

from shared.channels import puller  # pyright: ignore[reportMissingImports]
from shared.children import in_background  # pyright: ignore[reportMissingImports]


def drain() -> None:
    """Lines that nobody reads."""
    lines = puller("loggerplex")
    while True:
        lines.pull()


def main() -> None:
    settle, seconds = float(sys.argv[1]), float(sys.argv[2])
    in_background(drain)
    numbers = puller("tensorplex")
    while numbers.pull()["role"] != "learner":
        pass
    began = time.monotonic() + settle
    heard: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    while time.monotonic() < began + seconds:
        report = numbers.pull()
        if time.monotonic() > began:
            for name, value in report["content"]["scalars"].items():
                heard[report["role"]][name].append(value)
    print(json.dumps(heard), flush=True)
    os._exit(0)  # the other thread waits for ever


if __name__ == "__main__":
    main()
