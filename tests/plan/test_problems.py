"""The report of problems: columns, lines, repeated problems, no control characters."""

from __future__ import annotations

import json

from symphony.errors import SymphonyError
from symphony.plan.problems import PlanError, Problem, count, error_in, error_report
from symphony.spec.location import NOWHERE, Location


def test_report_of_problems(snapshot, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    file = str(tmp_path / "stacks" / "rl.py")
    error = PlanError(
        "rl",
        [
            Problem(
                'a and b both bind "replay"',
                "give one of them another name",
                (Location(file, 3), Location(file, 5)),
            ),
            Problem("agent has no command, which tmux needs", 'set command="python"', (Location(file, 14),)),
            Problem("c has no image", "say one", (Location(str(tmp_path / "lib.py"), 2), Location(file, 1))),
            Problem("the stack", "rename it", (NOWHERE,)),
        ],
    )
    assert str(error) == snapshot


def test_counts_are_singular_or_plural():
    assert PlanError("rl", [Problem("x", "y")]).line == "rl cannot run: 1 problem"
    assert count(3, "process", "processes") == "3 processes"


def test_each_line_is_named_once():
    here = Location("rl.py", 3)
    assert Problem("x", "y", (here, here)).lines("rl.py") == "line 3"
    assert Problem("x", "y", (here, Location("rl.py", 4))).lines("rl.py") == "lines 3, 4"
    assert Problem("x", "y", (here,)).lines("other.py") == "rl.py:3"


def test_control_characters_in_names_are_escaped():
    problem = Problem("a\x1b[2J\n\u202e has no command", "say\r one\x07")
    assert problem.what == r"a\x1b[2J\n\u202e has no command"
    assert problem.remedy == r"say\r one\x07"


def test_a_very_long_name_is_cut():
    assert len(Problem("x" * 10_000, "y").what) == 600


def test_an_error_round_trips_through_its_report():
    error = PlanError("rl", [Problem("x", "y", (Location("rl.py", 3, (Location("rl.py", 9),)),))])
    again = error_in(json.loads(json.dumps(error_report(error))))
    assert isinstance(again, PlanError)
    assert (again.experiment, again.problems) == (error.experiment, error.problems)
    assert again.details == error.details
    plain = error_in(error_report(SymphonyError("a", where="b", remedy="c")))
    assert plain is not None
    assert (type(plain), plain.what, plain.where, plain.remedy) == (SymphonyError, "a", "b", "c")
    assert error_in({"program": {}}) is None


def test_equal_problems_of_a_loop_are_one_line_with_a_count():
    place = Location("stacks/rl.py", 14)
    many = [
        Problem(f'agent-{n} connects to "x", which no process binds', "bind it", (place,)) for n in range(8)
    ]
    details = PlanError("rl", [*many, Problem("ps has no command", "say one", (place,))]).details
    assert len(details) == 3
    assert details[0].startswith('  agent-0 and 7 more: connects to "x", which no process binds   ')
    assert details[1].startswith("  ps has no command   ")
