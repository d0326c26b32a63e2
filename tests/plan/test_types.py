"""A value of a wrong type, anywhere: one problem that names the setting and the item, never an exception."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pulumi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symphony import Experiment
from symphony.plan.build import build_plan, problems
from symphony.plan.checked_spec import checked
from symphony.plan.problems import PlanError
from symphony.plan.target import Target
from symphony.spec.serialize import dump_dict

TEXTS = 'expected a list of texts such as ["python", "train.py"], or one text'


@pytest.mark.parametrize(
    ("message", "what", "remedy"),
    [
        ("command=5", "a has command of type int", TEXTS),
        ("command={}", "a has command of type dict", TEXTS),
        (
            "command='x \"'",
            "a has command of type str",
            "expected a list of texts, or one text with balanced quotes",
        ),
        ("cmds=5", "a has cmds of type int", TEXTS),
        ("cmds=['x', None]", "a has cmds[1] of type None", "expected a number or text there"),
        ("command=['x', b'y']", "a has command[1] of type bytes", "expected a number or text there"),
        ("cmds=['x'], args=[['y']]", "a has args[0] of type list", "expected a number or text there"),
        ("cmds=['x'], args=[True]", "a has args[0] of type bool", "expected a number or text there"),
        ("cmds=['x'], env=['A=1']", "a has env of type list", "expected a mapping from names to texts"),
        ("cmds=['x'], env={'A': None}", "a has env['A'] of type None", "expected a number or text there"),
        ("cmds=['x'], env={1: 'A'}", "a has env with the name 1 of type int", "expected names that are text"),
        ("cmds=['x'], image=1", "a has image of type int", "expected text, or Image(...)"),
        ("cmds=['x'], start_dir=1", "a has start_dir of type int", "expected text"),
        ("cmds=['x'], preamble_cmds=1", "a has preamble_cmds of type int", TEXTS),
    ],
)
def test_wrong_types_of_a_process(refused, message, what, remedy):
    refused(
        f"""
        exp = Experiment("rl")
        exp.new_process("a", {message})  # <-
        """,
        what,
        remedy,
    )


def test_all_wrong_parts_are_told_at_once():
    experiment = Experiment("rl")
    wrong: Any = {"command": ["x", None, b"y"], "env": {"A": None, "B": "b", "C": [1]}}
    experiment.new_process("a", **wrong)
    messages = [problem.what for problem in checked(experiment.spec).mistakes]
    assert messages == [
        "a has env['A'] of type None",
        "a has env['C'] of type list",
        "a has command[1] of type None",
        "a has command[2] of type bytes",
    ]


@pytest.mark.parametrize(
    ("call", "what", "remedy"),
    [
        ("binds(None)", "a has binds of type None", "expected service names, lists of them, or {name: port}"),
        ("binds(7000)", "a has binds of type int", "expected service names, lists of them, or {name: port}"),
        ("binds({'s': '7'})", "a, service s, has port of type str", "expected a whole number"),
        ("binds({'s': 7.0})", "a, service s, has port of type float", "expected a whole number"),
        ("binds({'s': True})", "a, service s, has port of type bool", "expected a whole number"),
        ("set_env(5, 'x')", "a has env with the name 5 of type int", "expected names that are text"),
        (
            "set_env([], 'x')",
            "a has env with the name ('list',) of type tuple",
            "expected names that are text",
        ),
        ("set_envs('A=1')", "a has env of type str", "expected a mapping from names to texts"),
        ("image_pull_policy(True)", "a has image_pull_policy of type bool", "expected text"),
        ("resource_request(cpu=[1])", "a has cpu of type list", "expected a number or text"),
        ("resource_limit(gpu='1')", "a has gpu of type str", "expected a whole number"),
        ("resource_limit(gpu=1.0)", "a has gpu of type float", "expected a whole number"),
        (
            "node_selector('a', None)",
            "a has node_selector['a'] of type None",
            "expected a number or text there",
        ),
        ("add_label('a', [])", "a has labels['a'] of type list", "expected a number or text there"),
        ("add_labels('a')", "a has labels of type str", "expected a mapping from names to texts"),
        ("add_toleration(key=1)", "a, toleration, has key of type int", "expected text"),
        ("restart_policy(1)", "a has restart_policy of type int", "expected text"),
        ("mount_nfs(1, '/a', '/b')", "a, mount, has server of type int", "expected text"),
        (
            "mount_secret('s', '/b', '0400')",
            "a, mount, has default_mode of type str",
            "expected a whole number",
        ),
        (
            "mount_empty_dir('s', 'yes', '/b')",
            "a, mount, has use_memory of type str",
            "expected True or False",
        ),
        ("mount_shared_memory(5)", "a, mount, has name of type int", "expected text"),
    ],
)
def test_wrong_types_in_a_call_are_reported_on_its_line(refused, call, what, remedy):
    refused(
        f"""
        exp = Experiment("rl")
        process = exp.new_process("a", ["x"])
        process.{call}  # <-
        process.set_env("FINE", 1)
        process.add_toleration(key="fine")
        process.add_label("fine", "fine")
        process.resource_limit(memory=1)
        """,
        what,
        remedy,
    )


@pytest.mark.parametrize(
    ("message", "what", "remedy"),
    [
        ("preamble_cmds=5", "has preamble_cmds of type int", TEXTS),
        ("start_dir=5", "has start_dir of type int", "expected text"),
        ("env=5", "has env of type int", "expected a mapping from names to texts"),
        ("image=5", "has image of type int", "expected text, or Image(...)"),
        ("inherit=5", "has inherit of type int", TEXTS),
        ("configs=[None]", "has configs[0] of type None", "expected a number or text there"),
        ("secrets=[None]", "has secrets[0] of type None", "expected a number or text there"),
        *(
            (
                f"port_range={port_range}",
                f"has port_range of type {kind}",
                "expected the first and the last port, such as (7000, 7999)",
            )
            for port_range, kind in [
                ("7000", "int"),
                ("'7000-7999'", "str"),
                ("[7999, 7000]", "tuple"),
                ("[1, 2, 3]", "tuple"),
                ("[7000, 'a']", "tuple"),
                ("(0, 70)", "tuple"),
                ("(7, 65536)", "tuple"),
                ("range(0)", "tuple"),
            ]
        ),
    ],
)
def test_wrong_types_of_the_experiment(refused, message, what, remedy):
    refused(
        f"""
        exp = Experiment("rl", {message})  # <-
        exp.new_process("a", ["x"])
        """,
        f"the experiment {what}",
        remedy,
    )


def test_names_of_wrong_types(problems_of):
    problems = problems_of(
        """
        exp = Experiment(5)
        exp.new_process("process-0", ["x"])
        exp.new_process(None, ["x"])
        exp.new_process_group(["g"]).new_process(7, ["x"])
        """
    )
    assert [problem.what for problem in problems] == [
        "the experiment has name of type int",
        "process-1 has name of type None",
        "group-0 has name of type list".replace("group", "process group group"),
        "group-0/process-0-x has name of type int",
    ]


def test_an_output_of_another_resource_is_explained(tmux):
    experiment = Experiment("rl")
    token: Any = pulumi.Output.from_input("x")
    experiment.new_process("a", ["x"], image=token)
    (problem,) = problems(checked(experiment.spec), tmux)
    assert problem.what == "a has image of type Output"
    assert problem.remedy == "expected text, or Image(...); a Pulumi Output goes into env or secret_env"


@pytest.mark.parametrize(
    ("value", "part", "kind"),
    [
        (threading.Lock(), ".spec[0]", "lock"),
        (object(), ".spec[0]", "object"),
        (b"x", ".spec[0]", "bytes"),
        ({1: 2}, ".spec[0][1]", "int"),
    ],
)
def test_what_no_manifest_can_hold(tmux, value, part, kind):
    experiment = Experiment("rl")
    process = experiment.new_process("a", ["x"])
    process.container_yml["spec"] = [value]
    (problem,) = problems(checked(experiment.spec), tmux)
    assert problem.what == f"a has container_yml{part} of type {kind}"


def test_a_manifest_that_holds_itself(tmux):
    experiment = Experiment("rl")
    process = experiment.new_process("a", ["x"])
    process.pod_yml["spec"] = process.pod_yml
    (problem,) = problems(checked(experiment.spec), tmux)
    assert problem.what.startswith("a has pod_yml.spec")
    assert "what does not hold itself" in problem.remedy


def test_numbers_and_paths_of_every_library_are_taken(tmux):
    experiment = Experiment("rl", start_dir=Path("/work"), port_range=range(7000, 8000))
    args: Any = [1, 0.5, 1e-3, np.int64(3), np.float32(0.5), Path("data")]
    process = experiment.new_process(
        "a",
        command=Path("/bin/x"),
        args=args,
        env={"N": 1, "ON": True, "LR": 3e-4, "DIR": Path("/data")},
    )
    port: Any = np.int64(7000)
    gpu: Any = np.int32(1)
    process.binds({"s": port})
    process.resource_limit(cpu=np.float64(0.5), gpu=gpu)
    planned = build_plan(checked(experiment.spec), tmux).processes[0]
    assert planned.command == ("/bin/x",)
    assert planned.args == ("1", "0.5", "0.001", "3", "0.5", "data")
    assert planned.env == {"N": "1", "ON": "True", "LR": "0.0003", "DIR": "/data"}
    assert planned.start_dir == "/work"
    assert experiment.spec.port_range == (7000, 7999)
    json.dumps(build_plan(checked(experiment.spec), tmux).to_dict())


class Hostile:
    """An object that cannot be compared, hashed, measured or told true from false."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")

    def __len__(self) -> int:
        raise RuntimeError("no length")


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.characters(categories=["Cs", "Cc"]),
    st.just(np.arange(3)),
    st.just(Hostile()),
    st.just(Decimal("1.5")),
    st.just(object()),
    st.just(threading.Lock()),
    st.just(MappingProxyType({"a": 1})),
    st.just(range(3)),
    st.just(pulumi.Output.from_input(1)),
    st.just(Experiment),
    st.lists(st.none() | st.integers() | st.text() | st.lists(st.text()), max_size=3),
    st.dictionaries(
        st.none() | st.integers() | st.text() | st.tuples(st.integers()),
        st.none() | st.integers() | st.text(),
        max_size=3,
    ),
    st.sets(st.integers() | st.text(), max_size=3),
)
keywords = st.dictionaries(
    st.sampled_from(
        ["cmds", "command", "args", "env", "image", "container_image", "preamble_cmds", "start_dir", "x"]
    ),
    anything,
)
group_keywords = st.dictionaries(
    st.sampled_from(["env", "image", "preamble_cmds", "start_dir", "x"]), anything
)
SETTINGS = ["env", "image", "preamble_cmds", "start_dir", "inherit", "secrets", "configs", "port_range", "x"]
experiment_keywords = st.dictionaries(
    st.sampled_from(SETTINGS),
    anything,
)
MEMBER_CALLS: dict[str, int] = {
    "set_env": 2,
    "set_envs": 1,
    "image_pull_policy": 1,
    "node_selector": 2,
    "add_toleration": 4,
    "restart_policy": 1,
    "add_label": 2,
    "add_labels": 1,
    "mount_nfs": 4,
    "mount_secret": 4,
    "mount_git_repo": 4,
    "mount_host_path": 4,
    "mount_empty_dir": 3,
    "mount_shared_memory": 1,
}
PROCESS_CALLS = {
    **MEMBER_CALLS,
    "binds": 2,
    "connects": 1,
    "exposes": 1,
    "resource_request": 2,
    "resource_limit": 3,
}


def calls(of: dict[str, int]) -> st.SearchStrategy[list[tuple[str, list[Any]]]]:
    only = st.sampled_from(sorted(of)).flatmap(
        lambda name: st.tuples(st.just(name), st.lists(anything, min_size=of[name], max_size=of[name]))
    )
    return st.lists(only, max_size=4)


@given(st.data())
def test_anything_anywhere_gives_problems_and_never_an_exception(tmux, kubernetes, data):
    def say(thing: Any, made: list[tuple[str, list[Any]]]) -> None:
        for name, arguments in made:
            method: Callable[..., None] = getattr(thing, name)
            method(*arguments)

    experiment = Experiment(data.draw(anything), **data.draw(experiment_keywords))
    process = experiment.new_process(data.draw(anything), **data.draw(keywords))
    group = experiment.new_process_group(data.draw(anything), **data.draw(group_keywords))
    member = group.new_process(data.draw(anything), **data.draw(keywords))
    say(process, data.draw(calls(PROCESS_CALLS)))
    say(group, data.draw(calls(MEMBER_CALLS)))
    say(member, data.draw(calls(PROCESS_CALLS)))
    process.container_yml = data.draw(anything)
    group.pod_yml = data.draw(anything)
    for target in (tmux, kubernetes):
        report = report_of(experiment, target)
        assert all(line.isprintable() for line in report.split("\n"))


def report_of(experiment: Experiment, target: Target) -> str:
    """The plan, else the report of its problems: a line each, between the heading and the end."""
    result = problems(checked(experiment.spec), target)
    if not result:
        plan = build_plan(checked(experiment.spec), target)
        plan.to_json()
        return str(plan)
    report = str(PlanError("rl", result))
    assert len(report.split("\n")) <= len(set(result)) + 2
    return report


@given(st.data())
def test_what_is_left_after_the_check_is_well_typed(tmux, data):
    experiment = Experiment("rl", **data.draw(experiment_keywords))
    experiment.new_process("a", **data.draw(keywords))
    clean = checked(experiment.spec)
    assert checked(clean) == replace(clean, mistakes=())
    json.dumps(dump_dict(clean))
