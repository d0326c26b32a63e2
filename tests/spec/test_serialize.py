"""Saving and loading experiments: equal after loading, errors with the path of the bad field."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pulumi
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from symphony.errors import UserError
from symphony.spec import order, pod
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony.spec.location import Location
from symphony.spec.pod import Place, PodSettings, Toleration
from symphony.spec.process import Probe, ProcessSpec, Rendezvous, Resources, ServiceUse
from symphony.spec.serialize import from_dict, to_dict

text = st.text(max_size=8) | st.sampled_from(
    ["yes", "1e3", "0o7", "null", "~", "a: b", "- x", "\x85", "\u2028", "#"]
)
texts = st.lists(text, max_size=3).map(tuple)
pairs = st.dictionaries(text, text, max_size=3)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(text, inner, max_size=2),
    max_leaves=6,
)
manifest = st.dictionaries(text, plain, max_size=2)
maybe = st.none() | text
operator = st.none() | st.sampled_from(["Exists", "Equal"])
effect = st.none() | st.sampled_from(["NoSchedule", "NoExecute"])
restart = st.none() | st.sampled_from(["Always", "Never"])
pull = st.none() | st.sampled_from(["Always", "Never"])
services = st.lists(st.builds(ServiceUse, text, st.none() | st.integers(1, 65535)), max_size=2).map(tuple)
seconds = st.none() | st.floats(0, 1e6)
conditions = st.sampled_from(list(order.TIMEOUTS))
waits = st.lists(
    st.builds(
        order.Dependency, text, conditions, st.none() | st.integers(1, 99), st.booleans(), st.booleans()
    ),
    max_size=2,
).map(tuple)
port = st.none() | text | st.integers(1, 65535)
probes = st.one_of(
    st.none(),
    st.builds(Probe, tcp=text | st.integers(1, 65535)),
    st.builds(Probe, http=text, port=port, period_seconds=st.integers(1, 9)),
    st.builds(Probe, exec=st.lists(text, min_size=1, max_size=2), initial_delay_seconds=st.integers(0, 9)),
    st.builds(Probe, log=st.sampled_from(["a.*", "^x"])),
)
quantity = st.none() | text | st.integers() | st.floats(allow_nan=False)
resources = st.builds(Resources, quantity, quantity, st.none() | st.integers())
tolerations = st.lists(st.builds(Toleration, maybe, operator, maybe, effect), max_size=2).map(tuple)
pods = st.builds(PodSettings, pairs, tolerations, restart, pairs, manifest)
count = st.none() | st.integers()
places = st.builds(Place, maybe, count, quantity, quantity, count, maybe, st.none() | st.booleans())
shared: dict[str, Any] = {"mount_path": text, "name": maybe}
mount = st.one_of(
    st.builds(pod.NfsMount, server=text, path=text, **shared),
    st.builds(pod.SecretMount, secret_name=text, default_mode=st.none() | st.integers(), **shared),
    st.builds(pod.GitRepoMount, repository=text, revision=text, **shared),
    st.builds(pod.HostPathMount, path=text, hostpath_type=text, **shared),
    st.builds(pod.EmptyDirMount, use_memory=st.booleans(), **shared),
    st.builds(pod.SharedMemoryMount, **shared),
)
mounted = st.lists(mount, max_size=2).map(tuple)
processes = st.builds(
    ProcessSpec,
    name=text,
    command=st.none() | texts,
    args=texts,
    cmds=texts,
    preamble_cmds=texts,
    start_dir=maybe,
    code=texts,
    env=pairs,
    secret_env=pairs,
    image=maybe,
    image_pull_policy=pull,
    binds=services,
    connects=services,
    exposes=services,
    rendezvous=st.none()
    | st.builds(Rendezvous, rank=st.integers(0, 9), size=st.integers(1, 9), service=text),
    resource_request=resources,
    resource_limit=resources,
    mounts=mounted,
    place=places,
    container_yml=manifest,
    pod=pods,
    readiness_probe=probes,
    liveness_probe=probes,
    depends_on=waits,
    termination_delay=seconds,
)
several = st.lists(processes, max_size=2).map(tuple)
groups = st.builds(
    ProcessGroupSpec,
    name=text,
    processes=several,
    preamble_cmds=texts,
    start_dir=maybe,
    code=texts,
    env=pairs,
    secret_env=pairs,
    image=maybe,
    image_pull_policy=pull,
    mounts=mounted,
    place=places,
    pod=pods,
    depends_on=waits,
    termination_delay=seconds,
)
experiments = st.builds(
    ExperimentSpec,
    name=text,
    processes=several,
    groups=st.lists(groups, max_size=2).map(tuple),
    preamble_cmds=texts,
    start_dir=maybe,
    code=texts,
    env=pairs,
    secret_env=pairs,
    image=maybe,
    inherit=texts,
    secrets=texts,
    configs=texts,
    primary=texts,
    termination_delay=seconds,
    stop_after=seconds,
    idle_after=seconds,
    port_range=st.none() | st.tuples(st.integers(1, 100), st.integers(200, 65535)),
)


def test_generated_experiments_cover_every_setting():
    # A setting that is added to a spec and not here would be saved without a test.
    unmade = {"where", "lines", "accepts_classic_names", "code_files"}
    for strategy, kind in (
        (processes, ProcessSpec),
        (groups, ProcessGroupSpec),
        (experiments, ExperimentSpec),
    ):
        made = set(strategy.wrapped_strategy.kwargs)  # type: ignore[attr-defined]
        assert made == {field.name for field in dataclasses.fields(kind)} - unmade
    assert set(pod.MOUNT_KINDS.values()) == set(pod.Mount.__subclasses__())


@settings(max_examples=50)
@given(experiments)
def test_a_saved_spec_is_plain_and_loads_equal(spec):
    saved = to_dict(spec)
    assert json.loads(json.dumps(saved)) == saved
    assert from_dict(saved) == spec
    assert from_dict(yaml.safe_load(yaml.safe_dump(saved, sort_keys=False))) == spec


def test_unset_settings_are_not_saved():
    spec = ExperimentSpec("rl", processes=(ProcessSpec("a", cmds=("ls",)),))
    assert to_dict(spec) == {"symphony": 1, "name": "rl", "processes": [{"name": "a", "cmds": ["ls"]}]}


def test_a_loaded_experiment_has_the_line_of_the_load():
    spec = ExperimentSpec(
        "rl",
        processes=(
            ProcessSpec(
                "a",
                binds=(ServiceUse("s"),),
                mounts=(pod.SharedMemoryMount(mount_path="/dev/shm"),),
            ),
        ),
        groups=(ProcessGroupSpec("g"),),
    )
    here = Location("program.py", 7)
    loaded = from_dict(to_dict(spec), here)
    process = loaded.processes[0]
    assert {
        loaded.where,
        process.where,
        process.binds[0].where,
        process.mounts[0].where,
        loaded.groups[0].where,
    } == {here}


MINIMAL = {"symphony": 1, "name": "rl"}
PROCESS = {"name": "a"}


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (5, "not a saved experiment"),
        ({"name": "rl"}, "not a saved experiment"),
        ({"symphony": 1}, "experiment lacks the field 'name'"),
        (MINIMAL | {"procesess": []}, "experiment has the unknown field 'procesess'"),
        (MINIMAL | {"processes": 5}, "experiment.processes "),
        (MINIMAL | {"processes": [5]}, "experiment.processes[0] "),
        (MINIMAL | {"processes": [{}]}, "experiment.processes[0] lacks the field 'name'"),
        (MINIMAL | {"processes": [PROCESS | {"args": [None]}]}, "experiment.processes[0].args[0] "),
        (MINIMAL | {"processes": [PROCESS | {"pod": []}]}, "experiment.processes[0].pod "),
        (
            MINIMAL | {"processes": [PROCESS | {"mounts": [{"kind": "x"}]}]},
            "mounts[0] has the unknown kind 'x'",
        ),
        (MINIMAL | {"processes": [PROCESS | {"mounts": [{}]}]}, "mounts[0] lacks the field 'kind'"),
        (
            MINIMAL | {"processes": [PROCESS | {"mounts": [{"kind": "nfs", "mount_path": "/a"}]}]},
            "mounts[0] lacks the field",
        ),
    ],
)
def test_a_load_error_names_the_path(data, part):
    with pytest.raises(UserError) as raised:
        from_dict(data)
    assert part in raised.value.what


def test_an_output_cannot_be_saved():
    args: Any = ("x", pulumi.Output.from_input("y"))
    with pytest.raises(UserError) as raised:
        to_dict(ExperimentSpec("rl", processes=(ProcessSpec("a", args=args),)))
    assert "experiment.processes[0].args[1]" in raised.value.what
