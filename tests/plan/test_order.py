"""`depends_on`, `connects(wait=)`, `primary` and time limits in the plan; unknown names and cycles."""

from __future__ import annotations

from typing import Any

import pytest

from symphony.backends import registry
from symphony.plan.plan import Ends
from symphony.supervision import Wait

ENDS = registry.get("tmux").settings | {"primary", "stop_after", "idle_after", "termination_delay"}


def wait(path: str, condition: Any, timeout: float | None = None) -> Wait:
    return Wait(path=path, condition=condition, timeout=timeout)


def test_waits_for_processes_groups_and_services(planned):
    plan = planned(
        """
        exp = Experiment("rl")
        prepare = exp.new_process("prepare", ["x"])
        exp.new_process("server", ["x"]).binds("replay")
        agents = exp.new_process_group("agents")
        agents.new_process("0", ["x"]).connects("replay", wait=True)
        agents.new_process("1", ["x"])
        agents.depends_on(prepare, condition="completed")
        exp.new_process("evaluate", ["x"], depends_on=[agents, {"agents/0": "ended"}])
        exp.new_process("report", ["x"]).depends_on("evaluate", condition="completed", timeout="1m")
        """
    )
    prepared = wait("prepare", "completed")
    assert {each.path: each.waits_for for each in plan.processes if each.waits_for} == {
        "agents/0": (prepared, wait("server", "ready", 600)),
        "agents/1": (prepared,),
        "evaluate": (
            wait("agents/0", "ready", 600),
            wait("agents/1", "ready", 600),
            wait("agents/0", "ended"),
        ),
        "report": (wait("evaluate", "completed", 60),),
    }


def test_an_unknown_dependency_is_refused_with_the_nearest_name(problems_of):
    (problem,) = problems_of(
        """
        exp = Experiment("rl")
        exp.new_process("prepare", ["x"])
        exp.new_process("train", ["x"]).depends_on("prepear")
        """
    )
    assert "prepear" in problem.what
    assert "prepare" in problem.remedy


def test_a_dependency_cycle_is_refused_with_its_lines(problems_of):
    (problem,) = problems_of(
        """
        exp = Experiment("rl")
        exp.new_process("other", ["x"], depends_on="b")
        exp.new_process("a", ["x"], depends_on="b")
        exp.new_process("b", ["x"], depends_on="c")
        exp.new_process("c", ["x"], depends_on={"a": "completed"})
        """
    )
    assert "b -> c -> a -> b" in problem.what
    assert len(problem.where) == 3


def test_all_dependency_cycles_are_told_at_once(problems_of):
    problems = problems_of(
        """
        exp = Experiment("rl")
        exp.new_process("c", ["x"], depends_on="c")
        exp.new_process("d", ["x"], depends_on="hub")
        exp.new_process("e", ["x"], depends_on="hub")
        exp.new_process("hub", ["x"], depends_on=["d", "e"])
        first = exp.new_process_group("first")
        second = exp.new_process_group("second")
        for name in "123":
            first.new_process(name, ["x"])
            second.new_process(name, ["x"])
        first.depends_on(second)
        second.depends_on(first)
        """
    )
    cycles = [{*problem.what.partition(": ")[2].split(" -> ")} for problem in problems]
    assert len(cycles) == 4, "one for the two dependencies of the groups"
    for cycle in ({"c"}, {"d", "hub"}, {"e", "hub"}):
        assert cycle in cycles


def test_processes_of_one_pod_cannot_wait_for_each_other(problems_of, kubernetes):
    (problem,) = problems_of(
        """
        exp = Experiment("rl")
        pod = exp.new_process_group("pod", image="x")
        pod.new_process("server")
        pod.new_process("client", depends_on="pod/server")
        """,
        kubernetes,
    )
    assert "pod/client waits for pod/server" in problem.what
    assert "group" in problem.remedy


def test_a_dependency_cycle_between_pods_is_refused(problems_of, kubernetes):
    (problem,) = problems_of(
        """
        exp = Experiment("rl")
        pod = exp.new_process_group("pod", image="x")
        pod.new_process("a")
        pod.new_process("b", depends_on="other")
        exp.new_process("other", image="x", depends_on="pod/a")
        """,
        kubernetes,
    )
    assert "other -> pod -> other" in problem.what


def test_primary_and_time_limits_are_paths_and_seconds_in_the_plan(planned):
    plan = planned(
        """
        exp = Experiment("rl", primary="agents", termination_delay=30, stop_after="8h", idle_after="1h30m")
        agents = exp.new_process_group("agents")
        agents.new_process("0", ["x"], termination_delay=0)
        agents.new_process("1", ["x"])
        exp.new_process("replay", ["x"], termination_delay="1m")
        """,
        supports=ENDS,
    )
    assert plan.ends == Ends(("agents/0", "agents/1"), 28800, 5400)
    assert {each.path: each.termination_delay for each in plan.processes} == {
        "replay": 60,
        "agents/0": 0,
        "agents/1": 30,
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ('primary="leaner"', "leaner"),
        ('primary="server"', "Always"),
        ('idle_after="0s"', "idle_after"),
    ],
)
def test_a_primary_or_limit_that_can_never_apply_is_a_problem(problems_of, given, words):
    (problem,) = problems_of(
        f"""
        exp = Experiment("rl", {given})
        exp.new_process("learner", ["x"])
        exp.new_process("server", ["x"], restart_policy="Always")
        """,
        supports=ENDS,
    )
    assert words in problem.what
    assert problem.where[0].line == 3
