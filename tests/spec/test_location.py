"""The line of the user's program that declared something, and how it is shown."""

from __future__ import annotations

from pathlib import Path

from symphony import Experiment
from symphony.plan.problems import Problem
from symphony.spec.location import NOWHERE, Location, caller, part_key
from symphony.spec.shared import Declared


def number_of(text: str) -> int:
    return next(
        number for number, line in enumerate(Path(__file__).read_text().splitlines(), 1) if text in line
    )


def test_caller_is_the_nearest_line_outside_symphony():
    assert caller() == Location(__file__, number_of("assert caller()"))


def test_a_call_over_several_lines_has_its_first_line():
    experiment = Experiment("rl")
    process = experiment.new_process(
        "a",
        command="x",
    )
    assert process.spec.where.line == number_of("process = experiment.new_process(")


def test_a_line_in_a_helper_function_also_names_its_caller():
    def worker(experiment: Experiment, name: str) -> None:
        experiment.new_process(name).binds("s")  # in the helper

    experiment = Experiment("rl")
    worker(experiment, "a")  # by this line
    [worker(experiment, name) for name in "b"]  # and this
    helper, first, second = map(number_of, ("# in the helper", "# by this line", "# and this"))
    assert [str(process.binds[0].where).rpartition(":")[2] for process in experiment.spec.processes] == [
        f"{helper}, called from line {first}",
        f"{helper}, called from line {second}",
    ]
    problem = Problem("x", "y", tuple(process.where for process in experiment.spec.processes))
    file = problem.where[0].short_file
    assert problem.lines(file) == f"lines {helper} (called from {first}), {helper} (called from {second})"


def test_a_user_file_named_like_contextlib_is_not_skipped(tmp_path):
    file = tmp_path / "my_contextlib.py"
    code = "from symphony.spec.location import caller\nsaid = caller()\n"
    made: dict[str, object] = {}
    exec(compile(code, str(file), "exec"), made)
    assert made["said"] == Location(str(file), 2)


def test_files_are_absolute_and_shown_relative(tmp_path, monkeypatch):
    (tmp_path / "stacks").mkdir()
    monkeypatch.chdir(tmp_path)
    made: dict[str, object] = {}
    exec(compile("from symphony.spec.location import caller\nsaid = caller()", "stacks/rl.py", "exec"), made)
    assert made["said"] == Location(str(tmp_path / "stacks" / "rl.py"), 2)
    assert str(made["said"]) == "stacks/rl.py:2"
    monkeypatch.chdir(tmp_path / "stacks")
    assert str(made["said"]) == "rl.py:2"
    assert str(Location("/etc/x", 3)) == "/etc/x:3"


def test_line_of_a_part_of_a_setting_falls_back_to_the_setting():
    first, second, declared = Location("a", 1), Location("a", 2), Location("a", 0)
    spec = Declared("a", where=declared, lines={"env": second, "env PATH": first})
    assert spec.at("env PATH") == first
    assert spec.at("env HOME") == second
    assert spec.at("args") == declared
    assert part_key("env", ["x"]) == "env list"


def test_an_unknown_location_is_shown_as_empty():
    assert str(NOWHERE) == ""
