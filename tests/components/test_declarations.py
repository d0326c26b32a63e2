"""Declaring experiments, groups and processes without a launch: calls, lists, errors, saving."""

from __future__ import annotations

import pydoc
from pathlib import Path
from typing import Any

import pulumi
import pytest

from symphony import Experiment, Process, ProcessGroup
from symphony.errors import UserError
from symphony.spec.process import Resources


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


def test_processes_and_groups_can_be_listed_and_looked_up(experiment: Experiment) -> None:
    assert [each.name for each in experiment.list_processes()] == ["learner", "a", "b"]
    assert [each.name for each in experiment.list_all_processes()] == ["learner", "a", "b", "a", "z"]
    assert [each.name for each in experiment.list_process_groups()] == ["workers", "more", "even-more"]
    assert list(experiment.components().processes) == ["learner", "a", "b", "workers/a", "even-more/z"]
    assert experiment.get_process("a") is experiment.list_processes()[1]
    group = experiment.get_process_group("workers")
    assert group.get_process("a") is experiment.list_all_processes()[3]
    added = Process("added")
    assert group.add_process(added) is added
    group.list_processes().clear()
    assert [each.name for each in group.spec.processes] == ["a", "added"]


def test_an_unknown_process_or_group_is_an_error_with_the_nearest_name(experiment: Experiment) -> None:
    with pytest.raises(UserError) as raised:
        experiment.get_process("lerner")
    assert isinstance(raised.value, pulumi.RunError)
    assert raised.value.what == 'experiment rl has no "lerner"'
    assert '"learner"' in raised.value.remedy
    assert "test_declarations.py:" in raised.value.where
    with pytest.raises(UserError, match='"workers"'):
        experiment.get_process_group("worker")
    with pytest.raises(UserError, match='Use one of: "z"'):
        experiment.get_process_group("even-more").get_process("other")


def test_add_process_refuses_other_types(experiment: Experiment) -> None:
    with pytest.raises(UserError, match="expected a Process, got a ProcessGroup"):
        experiment.add_process(ProcessGroup("g"))  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match="expected a ProcessGroup, got a Process"):
        experiment.add_process_group(Process("a"))  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match="expected a Process, got a str"):
        ProcessGroup("g").add_process("learner")  # pyright: ignore[reportArgumentType]


def test_a_loaded_experiment_is_equal_and_has_the_line_of_the_load(experiment: Experiment) -> None:
    loaded = Experiment.from_dict(experiment.to_dict())
    assert loaded.spec == experiment.spec
    where = loaded.get_process_group("workers").get_process("a").spec.connects[0].where
    assert where == loaded.spec.where
    assert where.file == __file__
    member = loaded.get_process_group("workers").get_process("a")
    assert member.path == "workers/a"
    with pytest.raises(UserError, match="is in process group"):
        Experiment("other").add_process(member)


def test_launch_outside_a_pulumi_program_exits(experiment: Experiment) -> None:
    with pytest.raises(SystemExit, match="Run it with `symphony up`"):
        experiment.launch()
    with pytest.raises(ZeroDivisionError), Experiment("rl"):
        _ = 1 / 0
    assert Experiment().name == "experiment"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python -u 'a b.py'", ("python", "-u", "a b.py")),
        (["python", "-u", "a b.py"], ("python", "-u", "a b.py")),
        (("python", 3), ("python", "3")),
        (Path("/bin/a b"), ("/bin/a b",)),
        (None, None),
        ("", ()),
    ],
)
def test_command_may_be_text_or_a_list(command, words) -> None:
    assert Process("a", command=command).spec.command == words


def test_cmds_command_and_args_are_stored() -> None:
    assert Process("a", "x y").spec.cmds == ("x y",)
    both = Process("a", ["x"], command="python", args=["--n", 4, 1e-3], image="i").spec
    assert (both.cmds, both.command, both.args, both.image) == (
        ("x",),
        ("python",),
        ("--n", "4", "0.001"),
        "i",
    )
    assert Process("a", args="--n 4").spec.args == ("--n 4",)


def test_later_calls_add_services_and_win_by_name() -> None:
    process = Process("a", binds="a", env={"A": 1, "B": 2})
    process.binds("b", {"c": 6006})
    process.set_env("A", 3)
    process.set_envs({"C": True, "B": 0.5})
    process.resource_request(cpu=1, memory="1Gi")
    process.resource_request(cpu=2)
    process.resource_limit(cpu=4, memory="4Gi", gpu=1)
    process.resource_limit(memory="8Gi")
    spec = process.spec
    assert [(use.name, use.port) for use in spec.binds] == [("a", None), ("b", None), ("c", 6006)]
    assert spec.env == {"A": "3", "B": "0.5", "C": "True"}
    assert spec.resource_request == Resources(cpu=2, memory="1Gi")
    assert spec.resource_limit == Resources(cpu=4, memory="8Gi", gpu=1)


def test_a_spec_does_not_change_with_its_process() -> None:
    process = Process("a", ["x"])
    process.container_yml["a"] = [1]
    process.pod_yml.setdefault("spec", {})["hostIPC"] = True
    before = process.spec
    assert (before.container_yml, before.pod.pod_yml) == ({"a": [1]}, {"spec": {"hostIPC": True}})
    process.container_yml["a"].append(2)
    process.set_env("A", 1)
    process.binds("s")
    assert before.container_yml == {"a": [1]}
    assert (dict(before.env), before.binds) == ({}, ())
    again = Process.from_spec(process.spec)
    assert again.spec == process.spec
    group = ProcessGroup("g", env={"A": 1}, image="i", preamble_cmds="cd x", start_dir="/data").spec
    assert ProcessGroup.from_spec(group).spec == group
    again.pod_yml["b"] = 2
    assert process.spec.pod.pod_yml == {"spec": {"hostIPC": True}}


def test_processes_do_not_share_the_parts_of_their_overrides() -> None:
    pod_yml = {"spec": {"hostIPC": True, "securityContext": {}}}
    first, second = Experiment("rl").new_process(
        "w", ["x"], replicas=2, pod_yml=pod_yml, container_yml=pod_yml
    )
    first.pod_yml["spec"]["affinity"]["nodeAffinity"] = "first"
    first.container_yml["spec"]["affinity"]["nodeAffinity"] = "first"
    changed = {"spec": {**pod_yml["spec"], "affinity": {"nodeAffinity": "first"}}}
    assert (first.spec.pod.pod_yml, first.spec.container_yml) == (changed, changed)
    assert (second.spec.pod.pod_yml, second.spec.container_yml) == (pod_yml, pod_yml)


@pytest.mark.parametrize(("wrong", "named"), [(["x"], "type list"), ({"spec": object()}, "type object")])
def test_an_override_of_a_wrong_type_is_an_error_at_its_line(wrong: Any, named: str) -> None:
    for kind in (Process, ProcessGroup):
        with pytest.raises(UserError, match=f"a: pod_yml.*{named}") as raised:
            kind("a", pod_yml=wrong)
        assert "test_declarations.py:" in raised.value.where


@pytest.mark.parametrize(
    ("setting", "remedy"),
    [("args", "Give args=..."), ("binds", "Call binds(...)"), ("set_env", "Call set_env")],
)
def test_assigning_a_setting_is_an_error_that_names_the_call(setting: str, remedy: str) -> None:
    process = Process("a", command="python")
    with pytest.raises(UserError) as raised:
        setattr(process, setting, ["a.py"])
    assert remedy in raised.value.remedy
    assert "test_declarations.py:" in raised.value.where
    process.pod_yml = {"spec": {}}  # pyright: ignore[reportAttributeAccessIssue]
    process.mine = 3  # pyright: ignore[reportAttributeAccessIssue]


def test_help_of_process_is_not_that_of_pulumi() -> None:
    shown = pydoc.plain(pydoc.render_doc(Process))
    declared = shown.partition("Methods inherited from pulumi")[0]
    assert "Declare a process" in declared
    assert ":param" not in declared
