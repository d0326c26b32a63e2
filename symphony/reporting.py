"""`report`: prints values of a process as a line of its output, which `symphony results` reads.

It imports nothing else of symphony, so a process in a pod can use it cheaply.
"""

import json
import sys
from typing import Any

PREFIX = "::result "


def report(**values: Any) -> None:
    """Print a result line, `::result {"loss": 0.31, "step": 900}`, for the table of `symphony results`.

    Args:
        values: Numbers or strings; scalars of numpy, torch and jax count as numbers.

    Example:
        symphony.report(loss=0.31, step=900)
    """
    sys.stdout.write(f"{PREFIX}{json.dumps(values, default=_plain)}\n")
    sys.stdout.flush()


def _plain(scalar: Any) -> Any:
    return scalar.item() if hasattr(scalar, "item") else str(scalar)
