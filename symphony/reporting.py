"""Reports values of a process as a line of its output, which `symphony results` reads.

A leaf: a process in a pod loads nothing else.
"""

from __future__ import annotations

import json
import sys
from typing import Any

MARK = "::result "


def report(**values: Any) -> None:
    """Print `::result {"loss": 0.31, "step": 900}`: `symphony results` makes a table of such lines.

    Args:
        values: Numbers or texts; scalars of numpy, torch and jax are taken as well.

    Example:
        symphony.report(loss=0.31, step=900)
    """
    sys.stdout.write(f"{MARK}{json.dumps(values, default=_plain)}\n")
    sys.stdout.flush()


def _plain(scalar: Any) -> Any:
    return scalar.item() if hasattr(scalar, "item") else str(scalar)
