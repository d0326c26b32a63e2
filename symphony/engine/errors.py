"""Turns what engine, plugin or program says about a failure into one line; operations call check()."""

from __future__ import annotations

import re

from symphony.engine.run import Outcome
from symphony.errors import SymphonyError


def check(outcome: Outcome) -> None:
    """Return when the run did what it was asked, else raise the one line that says why not."""
    if outcome.result != "succeeded":
        raise explain(outcome)


def explain(outcome: Outcome) -> SymphonyError:
    errors = [d for d in outcome.diagnostics if d.severity == "error"]
    text = errors[0].message if errors else outcome.stderr
    return from_text(text, stack=outcome.stack)


def from_text(text: str, *, stack: str) -> SymphonyError:
    lines = [line.strip() for line in re.sub(r"^error: ", "", text.strip()).splitlines() if line.strip()]
    return SymphonyError(lines[-1] if lines else "the engine failed without a word", where=stack)
