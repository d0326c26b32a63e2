"""The ports that a declaration wants, right or wrong."""

from __future__ import annotations

from typing import Any

from symphony import Experiment
from symphony.plan.checked_spec import checked
from symphony.plan.services import wanted_ports


def test_fixed_ports_and_ports_to_be_chosen():
    experiment = Experiment("rl")
    process = experiment.new_process("a")
    process.binds("free", {"fixed": 7000, "late": None})
    process.exposes({"late": 7001})
    process.connects("other")
    assert wanted_ports(checked(experiment.spec)) == {"free": None, "fixed": 7000, "late": 7001}


def test_what_is_illegal_is_left_out():
    experiment = Experiment("rl")
    wrong: Any = (5, "x\ud800", {"high": 70000, "text": "7000"})
    experiment.new_process("a").binds(*wrong)
    assert wanted_ports(checked(experiment.spec)) == {"text": None}


def test_the_range_to_choose_from():
    wrong: Any = 5
    for message, result in [((7000, 7009), (7000, 7009)), (None, None), ((9, 3), None), ("7000", None)]:
        experiment = Experiment("rl", port_range=message)
        experiment.new_process("a").binds(wrong)
        assert checked(experiment.spec).port_range == result
