"""Problems of a declaration as values, and the error that reports them together."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from symphony.errors import SymphonyError, UserError
from symphony.plan.names import printable
from symphony.spec.location import NOWHERE, Location

# Long enough for the shortages of six pools.
LONGEST = 600
# Equal problems of more processes than this, declared in a loop, share a line.
_MOST_ALIKE = 3


class Problem(msgspec.Struct, frozen=True):
    """A mistake: what is wrong, the lines of the program, and the remedy.

    A text that begins with the path of its process can share a line with equal problems of others.
    """

    what: str
    remedy: str
    where: tuple[Location, ...] = ()

    def __post_init__(self) -> None:
        # The texts contain the user's names, which may have control characters.
        msgspec.structs.force_setattr(self, "what", printable(self.what, LONGEST))
        msgspec.structs.force_setattr(self, "remedy", printable(self.remedy, LONGEST))

    def lines(self, file: str) -> str:
        """Return the lines as text: `line 14` in `file`, file:line elsewhere."""
        known = [line for line in self.where if line != NOWHERE]
        here = dict.fromkeys(_number(line) for line in known if line.short_file == file)
        if not here:
            return ", ".join(dict.fromkeys(map(str, known)))
        elsewhere = dict.fromkeys(str(line) for line in known if line.short_file != file)
        return ", ".join([f"line{'s' if len(here) > 1 else ''} {', '.join(here)}", *elsewhere])


class PlanError(UserError):
    """The experiment cannot run; `problems` has every reason, in the order of the program."""

    def __init__(self, experiment: str, problems: Sequence[Problem]) -> None:
        self.experiment = experiment
        self.problems = tuple(problems)
        super().__init__(f"{experiment} cannot run: {count(len(self.problems), 'problem')}")

    @property
    def file(self) -> str:
        """The file with most of the problems, or an empty string."""
        files = [line.short_file for problem in self.problems for line in problem.where if line.file]
        return max(files, key=files.count) if files else ""

    @property
    def line(self) -> str:
        """The first line; the reasons follow in `details`."""
        return f"{self.what} in {self.file}" if self.file else self.what

    @property
    def details(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """A line for each problem, in columns; equal problems of many processes share a line."""
        rows = [(what, p.lines(self.file), p.remedy) for what, p in folded(self.problems)]
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        body = [f"  {what:{widths[0]}}   {lines:{widths[1]}}   {remedy}" for what, lines, remedy in rows]
        return (*body, "Nothing was started.")


def _number(line: Location) -> str:
    """Return `14`, or for a line in a helper function `4 (called from 14)`."""
    calls = (str(call.line) if call.file == line.file else str(call) for call in line.called_from)
    return "".join([str(line.line), *(f" (called from {call})" for call in calls)])


def folded(problems: Sequence[Problem]) -> list[tuple[str, Problem]]:
    """Return problems with text; equal problems of many processes become `agent-0 and 7 more: ...`."""
    alike: dict[tuple[str, str, tuple[Location, ...]], list[Problem]] = {}
    for problem in problems:
        alike.setdefault((problem.what.partition(" ")[2], problem.remedy, problem.where), []).append(problem)
    rows: list[tuple[str, Problem]] = []
    for (rest, _, _), members in alike.items():
        if len(members) <= _MOST_ALIKE:
            rows += [(problem.what, problem) for problem in members]
        else:
            first = members[0].what.partition(" ")[0]
            rows.append((f"{first} and {len(members) - 1} more: {rest}", members[0]))
    return rows


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 problem`, `2 problems`, `3 processes`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def error_report(error: SymphonyError) -> dict[str, Any]:
    """Return an error as plain values for the symphony command; the engine passes on only its text."""
    if isinstance(error, PlanError):
        return {"experiment": error.experiment, "problems": msgspec.to_builtins(error.problems)}
    parts = {"what": error.what, "where": error.where, "remedy": error.remedy, "details": error.details}
    return {"error": {**parts, "is_users": isinstance(error, UserError)}}


def error_in(report: Mapping[str, Any]) -> SymphonyError | None:
    """Return the error in an error_report(); None for any other report."""
    if "problems" in report:
        return PlanError(report["experiment"], msgspec.convert(report["problems"], list[Problem]))
    if (parts := report.get("error")) is None:
        return None
    kind = UserError if parts["is_users"] else SymphonyError
    details = tuple(parts.get("details", ()))
    return kind(parts["what"], where=parts["where"], remedy=parts["remedy"], details=details)


def would_move(stack: str, runs_on: str, backend: str, back: str = "", where: str = "") -> UserError:
    """Return the error for a stack that would stop in one backend and start in another by mistake."""
    back = back or f"Set `symphony:backend: {runs_on}`"
    return UserError(
        f"{stack} runs on {runs_on} and would move to {backend}",
        where=where,
        remedy=f"{back}, or run `symphony delete {stack}` first",
    )
