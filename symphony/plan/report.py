"""What the program of a run reports to the symphony command beside its resources, as plain values.

Resources carry the plan itself. An error that the engine shows as text alone would lose its parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from symphony.errors import SymphonyError, UserError
from symphony.plan.problems import PlanError, Problem
from symphony.spec.location import Location


def from_error(error: SymphonyError) -> dict[str, Any]:
    """Return the report of an error."""
    if isinstance(error, PlanError):
        problems = [problem.to_json() for problem in error.problems]
        return {"experiment": error.experiment, "problems": problems}
    parts = {"what": error.what, "where": error.where, "remedy": error.remedy}
    return {"error": {**parts, "is_users": isinstance(error, UserError)}}


def error_in(report: Mapping[str, Any]) -> SymphonyError | None:
    """Return the error that a report is of, None for any other."""
    if "problems" in report:
        return PlanError(report["experiment"], [problem(each) for each in report["problems"]])
    if (parts := report.get("error")) is None:
        return None
    kind = UserError if parts["is_users"] else SymphonyError
    return kind(parts["what"], where=parts["where"], remedy=parts["remedy"])


def problem(data: Mapping[str, Any]) -> Problem:
    """Return the problem that Problem.to_json() made plain."""
    return Problem(data["what"], data["remedy"], tuple(map(_location, data["where"])))


def would_move(stack: str, runs_on: str, backend: str, back: str = "", where: str = "") -> UserError:
    """Return the error for a stack that would stop in one backend and start in another: hardly ever meant."""
    back = back or f"Set `symphony:backend: {runs_on}`"
    return UserError(
        f"{stack} runs on {runs_on} and would move to {backend}",
        where=where,
        remedy=f"{back}, or end it first: `symphony delete {stack}`",
    )


def _location(data: Mapping[str, Any]) -> Location:
    return Location(data["file"], data["line"], tuple(map(_location, data["called_from"])))
