"""Probes: invalid options, and ports that are not services of the process."""

from __future__ import annotations

import pytest

from symphony.errors import UserError
from symphony.spec.process import Probe


def test_probes_are_keywords_or_calls_and_take_the_only_service(planned):
    plan = planned(
        """
        exp = Experiment("rl")
        exp.new_process("a", ["x"], binds="web", readiness_probe=Probe(http="/health"))
        b = exp.new_process("b", ["x"])
        b.liveness_probe(exec="test -e /alive", period_seconds=7)
        b.readiness_probe(tcp=6006)
        """
    )
    assert plan.process("a").readiness_probe == Probe(http="/health", port="web")
    assert plan.process("b").liveness_probe == Probe(exec=("test", "-e", "/alive"), period_seconds=7)
    assert plan.process("b").readiness_probe == Probe(tcp=6006)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ('Probe(tcp="repaly")', "replay"),
        ('Probe(http="/")', 'port="replay"'),
        ('Probe(http="/", port="web")', "use one of: replay, stats"),
    ],
)
def test_a_probe_must_use_a_service_of_its_process(problems_of, declared, words):
    (problem,) = problems_of(
        f"""
        exp = Experiment("rl")
        exp.new_process("web", ["x"], binds="web")
        exp.new_process("a", ["x"], binds=["replay", "stats"], readiness_probe={declared})
        """
    )
    assert "readiness_probe of a" in problem.what
    assert words in problem.remedy
    assert problem.where


def test_a_liveness_probe_cannot_use_log(problems_of):
    (problem,) = problems_of(
        """
        exp = Experiment("rl")
        exp.new_process("a", ["x"]).liveness_probe(log="alive")
        """
    )
    assert "liveness_probe of a" in problem.what


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({}, "nothing"),
        ({"tcp": 80, "http": "/"}, "tcp and http"),
        ({"tcp": 80, "port": 81}, "port"),
        ({"tcp": 0}, "tcp"),
        ({"log": "("}, "regular expression"),
        ({"exec": ["true"], "period_seconds": 0}, "period_seconds"),
        ({"exec": ["true"], "timeout_seconds": "1s"}, "timeout_seconds"),
    ],
)
def test_an_invalid_probe_is_reported_with_its_file(options, what):
    with pytest.raises(UserError) as raised:
        Probe(**options)
    assert what in raised.value.what
    assert __file__.rpartition("/")[2] in str(raised.value.where)
