"""The classic calls of an experiment: what it lists, finds, saves and loads; outside Pulumi it is inert."""

from __future__ import annotations

import pulumi
import pytest

from symphony import Experiment, Process, ProcessGroup
from symphony.errors import UserError


@pytest.fixture
def experiment() -> Experiment:
    experiment = Experiment("rl", preamble_cmds=["cd x"], secrets=["~/.key"], port_range=range(7000, 7010))
    experiment.add_process(Process("learner", ["x"]))
    experiment.add_processes([Process("a"), Process("b")])
    group = ProcessGroup("workers")
    group.new_process("a", command="x", args=[1]).connects("s")
    experiment.add_process_group(group)
    experiment.add_process_groups([ProcessGroup("more")])
    experiment.new_process_group("even-more").new_process("z", ["x"]).binds({"s": 7000})
    return experiment


def test_lists(experiment):
    assert [each.name for each in experiment.list_processes()] == ["learner", "a", "b"]
    assert [each.name for each in experiment.list_all_processes()] == ["learner", "a", "b", "a", "z"]
    assert [each.name for each in experiment.list_process_groups()] == ["workers", "more", "even-more"]
    assert experiment.name == "rl"
    assert list(experiment.components().processes) == ["learner", "a", "b", "workers/a", "even-more/z"]


def test_finding(experiment):
    assert experiment.get_process("a") is experiment.list_processes()[1]
    assert experiment.get_process_group("workers").get_process("a") is experiment.list_all_processes()[3]


def test_what_is_not_there_is_one_line_with_the_near_name(experiment):
    with pytest.raises(UserError, match=r'experiment rl has no "lerner" .* The nearest is "learner"'):
        experiment.get_process("lerner")
    with pytest.raises(UserError, match=r'experiment rl has no "worker" .* The nearest is "workers"'):
        experiment.get_process_group("worker")


def test_what_does_not_belong(experiment):
    with pytest.raises(
        UserError, match=r"a ProcessGroup is added where a Process belongs .* Add what Process\("
    ):
        experiment.add_process(ProcessGroup("g"))
    with pytest.raises(UserError, match="a Process is added where a ProcessGroup belongs"):
        experiment.add_process_group(Process("a"))


def test_mistakes_while_declaring_end_a_pulumi_program_without_a_traceback(experiment):
    with pytest.raises(pulumi.RunError):
        experiment.get_process("lerner")


def test_dicts(experiment):
    assert Experiment.from_dict(experiment.to_dict()).spec == experiment.spec


def test_a_mistake_in_a_saved_experiment_is_shown_where_it_is_loaded(experiment, tmp_path):
    loaded = Experiment.from_dict(experiment.to_dict())
    where = loaded.get_process_group("workers").get_process("a").spec.connects[0].where
    assert where == loaded.spec.where
    assert where.file == __file__


def test_outside_a_pulumi_program_it_cannot_be_launched(experiment):
    with pytest.raises(SystemExit, match="Run this one with `symphony up`"):
        experiment.launch()


def test_an_error_inside_the_block_is_not_hidden_by_the_launch():
    with pytest.raises(ZeroDivisionError), Experiment("rl"):
        _ = 1 / 0


def test_without_a_name_outside_a_program():
    assert Experiment().name == "experiment"
