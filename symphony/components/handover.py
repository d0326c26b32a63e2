"""Hands the plan, or the problems, to the symphony command that started the engine; run.py calls it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from symphony.errors import SymphonyError
from symphony.paths import PLAN_FILE_VARIABLE

if TYPE_CHECKING:
    from symphony.plan.plan import Plan
    from symphony.plan.problems import PlanError


# Of the program that runs in this context: a script may launch several at once.
_answer: ContextVar[Path | None] = ContextVar("answer", default=None)


def answer_in(file: Path) -> None:
    """What the program hands over from now on goes there, not where the environment says."""
    _answer.set(file)


def is_asked() -> bool:
    """Whether a symphony command waits for the plan; plain `pulumi` does not."""
    return _answer.get() is not None or PLAN_FILE_VARIABLE in os.environ


def write_plan(plan: Plan, inputs: Mapping[str, Mapping[str, Any]]) -> None:
    """The plan, and the inputs of each process as its backend renders them."""
    _write({"plan": plan.to_dict(), "inputs": inputs, "unused": [str(each) for each in plan.unused]})


def write_problems(error: PlanError) -> None:
    """Why the experiment cannot run."""
    problems = [problem.to_json() for problem in error.problems]
    _write({"experiment": error.experiment, "problems": problems})


def write_failure(error: SymphonyError) -> None:
    """What failed and is not the user's mistake: a RunError alone would not say whose it is."""
    _write({"failure": {"what": error.what, "where": error.where, "remedy": error.remedy}})


def _write(data: dict[str, Any]) -> None:
    if file := _answer.get() or os.environ.get(PLAN_FILE_VARIABLE):
        partial = Path(f"{file}.partial")
        partial.touch(mode=0o600)
        partial.write_text(json.dumps(data))
        partial.replace(file)
