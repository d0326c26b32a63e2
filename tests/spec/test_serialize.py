"""A saved experiment loads to an equal one, every setting included; a broken file is one line."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symphony.errors import UserError
from symphony.spec import mounts
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony.spec.location import Location
from symphony.spec.pod import Place, PodSettings, Toleration
from symphony.spec.process import ProcessSpec, Resources
from symphony.spec.serialize import dump_dict, dump_json, dump_yaml, load_dict, load_json, load_yaml
from symphony.spec.services import ServiceUse

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
services = st.lists(st.builds(ServiceUse, text, st.none() | st.integers(1, 65535)), max_size=2).map(tuple)
quantity = st.none() | text | st.integers() | st.floats(allow_nan=False)
resources = st.builds(Resources, quantity, quantity, st.none() | st.integers())
tolerations = st.lists(st.builds(Toleration, maybe, maybe, maybe, maybe), max_size=2).map(tuple)
pods = st.builds(PodSettings, pairs, tolerations, maybe, pairs, manifest)
count = st.none() | st.integers()
places = st.builds(Place, maybe, count, quantity, quantity, count, maybe, st.none() | st.booleans())
shared: dict[str, Any] = {"mount_path": text, "name": maybe}
mount = st.one_of(
    st.builds(mounts.NfsMount, server=text, path=text, **shared),
    st.builds(mounts.SecretMount, secret_name=text, default_mode=st.none() | st.integers(), **shared),
    st.builds(mounts.GitRepoMount, repository=text, revision=text, **shared),
    st.builds(mounts.HostPathMount, path=text, hostpath_type=text, **shared),
    st.builds(mounts.EmptyDirMount, use_memory=st.booleans(), **shared),
    st.builds(mounts.SharedMemoryMount, **shared),
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
    image_pull_policy=maybe,
    binds=services,
    connects=services,
    exposes=services,
    resource_request=resources,
    resource_limit=resources,
    mounts=mounted,
    place=places,
    container_yml=manifest,
    pod=pods,
    unknown=texts,
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
    image_pull_policy=maybe,
    mounts=mounted,
    place=places,
    pod=pods,
    unknown=texts,
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
    port_range=st.none() | st.tuples(st.integers(1, 65535), st.integers(1, 65535)),
    unknown=texts,
)


def test_the_generated_experiments_make_every_setting():
    # A setting that is added to a spec and not here would be saved without a test.
    unmade = {"where", "places", "maps_names", "code_files"}
    for strategy, kind in (
        (processes, ProcessSpec),
        (groups, ProcessGroupSpec),
        (experiments, ExperimentSpec),
    ):
        made = set(strategy.wrapped_strategy.kwargs)  # type: ignore[attr-defined]
        assert made == {field.name for field in dataclasses.fields(kind)} - unmade
    assert set(mounts.MOUNT_KINDS.values()) == set(mounts.Mount.__subclasses__())


@settings(max_examples=50)
@given(experiments)
def test_what_is_saved_is_plain_and_read_as_it_was(spec):
    saved = dump_dict(spec)
    assert json.loads(json.dumps(saved)) == saved
    assert load_dict(saved) == spec
    assert load_json(dump_json(spec)) == spec
    assert load_yaml(dump_yaml(spec)) == spec


def test_settings_that_were_not_made_are_left_out():
    spec = ExperimentSpec("rl", processes=(ProcessSpec("a", cmds=("ls",)),))
    assert dump_yaml(spec) == "symphony: 1\nname: rl\nprocesses:\n- name: a\n  cmds:\n  - ls\n"


def test_a_loaded_experiment_was_said_where_it_was_loaded():
    spec = ExperimentSpec(
        "rl",
        processes=(
            ProcessSpec(
                "a",
                binds=(ServiceUse("s"),),
                mounts=(mounts.SharedMemoryMount(mount_path="/dev/shm"),),
            ),
        ),
        groups=(ProcessGroupSpec("g"),),
    )
    here = Location("program.py", 7)
    loaded = load_dict(dump_dict(spec), here)
    process = loaded.processes[0]
    assert {
        loaded.where,
        process.where,
        process.binds[0].where,
        process.mounts[0].where,
        loaded.groups[0].where,
    } == {here}


MINIMAL = {"symphony": 1, "name": "rl"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (5, "a saved experiment is a mapping. Give what dump_dict returned."),
        (None, "a saved experiment is a mapping. Give what dump_dict returned."),
        (
            {"name": "rl"},
            "this is not a saved experiment of format 1: it says symphony: None."
            " Save it again with dump_yaml or dump_json.",
        ),
        ({"symphony": 1}, "experiment lacks the field 'name'. Add it."),
        (
            MINIMAL | {"procesess": []},
            "experiment has no field 'procesess'. It may have: code, configs, env, groups, image, inherit,"
            " name, port_range, preamble_cmds, processes, secret_env, secrets, start_dir, unknown.",
        ),
        (
            MINIMAL | {"said": {}},
            "experiment has no field 'said'. It may have: code, configs, env, groups, image, inherit, name,",
        ),
        (MINIMAL | {1: 2}, "experiment has no field 1. It may have: code, configs, env,"),
        (MINIMAL | {"processes": 5}, "experiment.processes is not a list. Save the experiment again."),
        (
            MINIMAL | {"processes": {"name": "a"}},
            "experiment.processes is not a list. Save the experiment again.",
        ),
        (
            MINIMAL | {"processes": [5]},
            "experiment.processes[0] is not a mapping. Save the experiment again.",
        ),
        (MINIMAL | {"processes": [{}]}, "experiment.processes[0] lacks the field 'name'. Add it."),
        (MINIMAL | {"groups": None}, "experiment.groups is not a list. Save the experiment again."),
        (
            MINIMAL | {"processes": [{"name": "a", "binds": ["s"]}]},
            "experiment.processes[0].binds[0] is not a mapping. Save the experiment again.",
        ),
        (
            MINIMAL | {"processes": [{"name": "a", "pod": []}]},
            "experiment.processes[0].pod is not a mapping. Save the experiment again.",
        ),
        (
            MINIMAL | {"processes": [{"name": "a", "resource_limit": [{}]}]},
            "experiment.processes[0].resource_limit is not a mapping. Save the experiment again.",
        ),
        (
            MINIMAL | {"processes": [{"name": "a", "mounts": 5}]},
            "experiment.processes[0].mounts is not a list. Save the experiment again.",
        ),
        *(
            (
                MINIMAL | {"processes": [{"name": "a", "mounts": [broken]}]},
                "experiment.processes[0].mounts[0] has no known kind. Expected one of: nfs,",
            )
            for broken in (5, {}, {"kind": "floppy"}, {"kind": ["nfs"]})
        ),
        (
            MINIMAL
            | {"processes": [{"name": "a", "mounts": [{"kind": "nfs", "mount_path": "/a", "path": "/"}]}]},
            "experiment.processes[0].mounts[0] lacks the field 'server'. Add it.",
        ),
    ],
)
def test_what_cannot_be_loaded_is_one_line_with_the_path(data, message):
    with pytest.raises(UserError) as raised:
        load_dict(data)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("broken", "load"), [("{", load_json), ("[" * 100_000, load_json), ("", load_json)])
def test_what_is_no_json(broken, load):
    with pytest.raises(UserError, match="not JSON: ") as raised:
        load(broken)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "broken", ["{", "a: b: c", "\0", "!!python/object:os.system x", "x: 2024-99-99", "\t"]
)
def test_what_is_no_yaml(broken):
    with pytest.raises(UserError, match="not YAML: ") as raised:
        load_yaml(broken)
    assert "\n" not in str(raised.value)


@given(
    st.recursive(
        st.none() | st.integers() | text, lambda inner: st.lists(inner) | st.dictionaries(text, inner)
    )
)
def test_any_file_loads_or_is_one_line(data):
    for attempt in (
        data,
        MINIMAL | {"processes": [{"name": "a"} | data if isinstance(data, dict) else data]},
    ):
        try:
            load_dict(attempt)
        except UserError as error:
            message = str(error)
            assert len(message.split("\n")) == 1


class Opaque:
    pass


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (ExperimentSpec("rl", image=Opaque()), "experiment.image cannot be saved: it is of type Opaque."),  # type: ignore[arg-type]
        (
            ExperimentSpec("rl", env={"A": Opaque()}),  # type: ignore[dict-item]
            "experiment.env.A cannot be saved: it is of type Opaque.",
        ),
        (
            ExperimentSpec("rl", processes=(ProcessSpec("a", args=("x", b"y")),)),  # type: ignore[arg-type]
            "experiment.processes[0].args[1] cannot be saved: it is of type bytes.",
        ),
        (
            ExperimentSpec("rl", processes=(ProcessSpec("a", container_yml={"a": {1: 2}}),)),
            "experiment.processes[0].container_yml.a[1] cannot be saved: it is of type int.",
        ),
    ],
)
@pytest.mark.parametrize("dump", [dump_dict, dump_json, dump_yaml])
def test_what_cannot_be_saved_is_one_line_with_the_path(dump, spec, message):
    with pytest.raises(UserError) as raised:
        dump(spec)
    assert str(raised.value).startswith(message)
