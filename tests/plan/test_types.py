"""A value of a wrong type is an error on its line, before anything is planned."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pulumi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symphony import Experiment, Place, Resources
from symphony.errors import UserError
from symphony.plan.backend_limits import BackendLimits
from symphony.plan.build import build_plan
from symphony.plan.problems import PlanError
from tests.plans import problems, shown


def error_of(declare: Callable[[str], Any], line: str) -> UserError:
    with pytest.raises(UserError) as raised:
        declare(
            f'exp = Experiment("rl")\nprocess = exp.new_process("a", ["x"])\n{line}\nprocess.set_env("B", 1)'
        )
    assert isinstance(raised.value, pulumi.RunError)
    assert "program.py:4" in raised.value.where
    return raised.value


@pytest.mark.parametrize(
    ("line", "setting"),
    [
        ("Experiment(5)", "name"),
        ("Experiment('b', port_range=(7, 3))", "b: port_range"),
        ("Experiment('b', port_range=(0, 70))", "b: port_range"),
        ("Experiment('b', secrets=[None])", "b: secrets[0]"),
        ("exp.new_process(None)", "name"),
        ("exp.new_process('b', command=5j)", "b: command"),
        ("exp.new_process('b', args=[['y']])", "b: args[0]"),
        ("exp.new_process('b', env={'A': None})", "b: env['A']"),
        ("exp.new_process('b', image=1)", "b: image"),
        ("exp.new_process('b', start_dir=1)", "b: start_dir"),
        ("exp.new_process('b', binds=7000)", "b: binds"),
        ("exp.new_process('b', resources={'cpu': 1})", "b: resources"),
        ("exp.new_process('b', restart_policy='onfailure')", "b: restart_policy"),
        ("exp.new_process('b', labels=['a'])", "b: labels"),
        ("exp.new_process_group('g', env=5)", "g: env"),
        ("process.binds({'s': '7'})", "port"),
        *((f"process.binds({{'s': {port}}})", "port") for port in (0, 65536, 10**30)),
        ("process.set_env(5, 'x')", "a name in a: env"),
        ("process.image_pull_policy('Somtimes')", "a: image_pull_policy"),
        ("process.resource_request(cpu=[1])", "cpu"),
        ("process.resource_limit(gpu='1')", "gpu"),
        ("process.resource_limit(gpu=-1)", "gpu"),
        ("process.place(per_machine=0)", "per_machine"),
        *(
            (f"process.resource_request({kind}={amount!r})", kind)
            for kind, amount in (("cpu", "two"), ("memory", "1 GB"), ("cpu", "-1"), ("memory", "nan"))
        ),
        *((f"process.place(cpu={amount!r})", "cpu") for amount in ("", "½", "inf")),
        ("process.node_selector('a', None)", "a: node_selector['a']"),
        ("process.add_toleration(effect='NO_EXECUTE')", "effect"),
        ("process.mount_secret('s', '/b', '0400')", "default_mode"),
        ("Experiment('b', stop_after='long')", "b: stop_after"),
        ("Experiment('b', idle_after=-1)", "b: idle_after"),
        ("Experiment('b', primary=5)", "b: primary"),
        ("process.depends_on(exp.new_process('c', ['x']), condition='finished')", "a: depends_on"),
        ("process.depends_on(exp.new_process('c', ['x']), timeout=[])", "a: depends_on"),
        ("process.place(per_machine='2')", "per_machine"),
        ("process.place(per_machine=1.5)", "per_machine"),
        ("process.place(per_machine=True)", "per_machine"),
        ("process.place(spot='yes')", "spot"),
        ("process.mount_empty_dir('a', 'yes', '/b')", "use_memory"),
        ("process.binds(None)", "a: binds"),
    ],
)
def test_a_wrong_type_is_an_error_on_its_line(declare, line, setting):
    assert error_of(declare, line).what.startswith(setting)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("exp.new_process('b', comand='x')", "command"),
        ("exp.new_process('b', mount_nfs='x')", ".mount_nfs(...)"),
        ("exp.new_process_group('b', args='x')", "Use one of"),
    ],
)
def test_an_unknown_option_is_an_error_on_its_line(declare, line, hint):
    assert hint in error_of(declare, line).remedy


def test_properties_can_be_set_by_keyword_or_call():
    by_keyword = Experiment("rl").new_process(
        "a",
        command="python a.py",
        binds=["x", {"y": 6006}],
        connects="z",
        exposes={"tb": None},
        restart_policy="OnFailure",
        resources=Resources(cpu=2, gpu=1),
        limits=Resources(memory="8Gi"),
        place=Place("cpu"),
        node_selector={"pool": "cpu"},
        labels={"team": "rl"},
        image_pull_policy="Always",
        pod_yml={"spec": {"hostIPC": True}},
    )
    by_call = Experiment("rl").new_process("a", command="python a.py")
    by_call.binds("x", {"y": 6006})
    by_call.connects("z")
    by_call.exposes({"tb": None})
    by_call.restart_policy("OnFailure")
    by_call.resource_request(cpu=2)
    by_call.resource_limit(memory="8Gi", gpu=1)
    by_call.place("cpu")
    by_call.node_selector("pool", "cpu")
    by_call.add_label("team", "rl")
    by_call.image_pull_policy("Always")
    by_call.pod_yml["spec"]["hostIPC"] = True
    assert by_keyword.spec == by_call.spec


@pytest.mark.parametrize("value", [threading.Lock(), b"x", {1: 2}])
def test_values_that_are_not_json_in_container_yml_are_refused(value):
    process = Experiment("rl").new_process("a", ["x"])
    process.container_yml["spec"] = [value]
    with pytest.raises(UserError, match="container_yml"):
        _ = process.spec


def test_reading_pod_yml_does_not_change_it():
    process = Experiment("rl").new_process("a", ["x"])
    assert process.pod_yml["spec"]["dnsPolicy"] == {}
    process.pod_yml["metadata"]["annotations"] = {}
    assert process.spec.pod.pod_yml == {"metadata": {"annotations": {}}}


def test_numpy_numbers_and_paths_are_accepted(tmux):
    experiment = Experiment("rl", start_dir=Path("/work"), port_range=range(7000, 8000))
    args: Any = [1, 0.5, 1e-3, True, np.int64(3), np.float32(0.5), Path("data")]
    process = experiment.new_process("a", command=Path("/bin/x"), args=args, env={"N": 1, "ON": True})
    port: Any = np.int64(7000)
    process.binds({"s": port})
    planned = build_plan(experiment.spec, tmux).processes[0]
    assert planned.command == ("/bin/x",)
    assert planned.args == ("1", "0.5", "0.001", "True", "3", "0.5", "data")
    assert planned.env == {"N": "1", "ON": "True"}
    assert planned.start_dir == "/work"
    assert experiment.spec.port_range == (7000, 7999)
    json.dumps(shown(build_plan(experiment.spec, tmux)))


texts = st.text() | st.characters(categories=["Cs", "Cc"])
keywords = st.fixed_dictionaries(
    {},
    optional={
        "cmds": st.lists(texts, max_size=3),
        "args": st.lists(texts | st.integers() | st.floats(), max_size=3),
        "env": st.dictionaries(texts, texts, max_size=3),
        "image": texts,
        "start_dir": texts,
        "binds": st.dictionaries(texts, st.none() | st.integers(1, 65535), max_size=3),
        "connects": st.lists(texts, max_size=2),
        "resources": st.builds(Resources, st.none(), st.floats(0, 1e12), st.integers(0, 16)),
        "node_selector": st.dictionaries(texts, texts, max_size=2),
    },
)


@given(texts, st.lists(st.tuples(texts, keywords), max_size=3))
def test_any_text_gives_a_plan_or_printable_problems(tmux, kubernetes, name, processes):
    experiment = Experiment(name)
    for process, options in processes:
        experiment.new_process(process, **options)
    for limits in (tmux, kubernetes):
        assert all(line.isprintable() for line in report_of(experiment, limits).split("\n"))


def report_of(experiment: Experiment, limits: BackendLimits) -> str:
    """Return the plan, else the report of its problems."""
    if found := problems(experiment.spec, limits):
        return str(PlanError("rl", found))
    return json.dumps(shown(build_plan(experiment.spec, limits)))
