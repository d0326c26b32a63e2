"""The ports that a declaration asks for."""

from __future__ import annotations

from symphony import Experiment
from symphony.plan.services import fixed_ports


def test_wanted_ports_are_fixed_or_chosen():
    experiment = Experiment("rl")
    process = experiment.new_process("a")
    process.binds("free", {"fixed": 7000, "exposed": None})
    process.exposes({"exposed": 7001})
    process.connects("other")
    assert fixed_ports(experiment.spec) == {"free": None, "fixed": 7000, "exposed": 7001}


def test_invalid_services_are_ignored():
    experiment = Experiment("rl")
    experiment.new_process("a").binds("x\ud800", {"text": None})
    assert fixed_ports(experiment.spec) == {"text": None}
