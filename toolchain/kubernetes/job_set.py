"""The definition of JobSet as its own module publishes it; tests install it to have ours judged."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from toolchain.kubernetes.build import go_program
from toolchain.kubernetes.calls import ToolchainError, run

MODULE = "sigs.k8s.io/jobset@v0.8.0"
_SUM = "h1:80cJcPld+IMdKFOqzEW4et3Y6lGAPcP8YmBZ+aiKGYA="
_FILE = "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"


def definition() -> Path:
    """The file that an administrator applies. ToolchainError: there is no Go, or no such module to be had."""
    go = go_program()
    with tempfile.TemporaryDirectory() as empty:  # no go.mod of somebody else may have a say
        answer = run([go, "-C", empty, "mod", "download", "-json", MODULE], timeout=120)
    found = json.loads(answer)
    if found["Sum"] != _SUM:
        raise ToolchainError(f"{MODULE} is not what it was: its sum is {found['Sum']}")
    return Path(found["Dir"]) / _FILE
