"""Saving and loading experiments: equal after loading, errors with the path of the bad field."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pulumi
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from symphony.errors import UserError
from symphony.spec import pod
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony.spec.location import Location
from symphony.spec.process import Probe, ProcessSpec, ServiceUse
from symphony.spec.serialize import from_dict, to_dict

# What YAML may take for something else, beside any text.
TEXT = st.text(max_size=8) | st.sampled_from(
    ["yes", "1e3", "0o7", "null", "~", "a: b", "- x", "\x85", "\u2028", "#"]
)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=6,
)
PORT = st.none() | TEXT | st.integers(1, 65535)
QUANTITY = st.none() | st.sampled_from(["500m", "8Gi"]) | st.integers(0, 2**40) | st.floats(0, 1e12)
PROBES = st.one_of(
    st.builds(Probe, tcp=TEXT | st.integers(1, 65535)),
    st.builds(Probe, http=TEXT, port=PORT, period_seconds=st.integers(1, 9)),
    st.builds(Probe, exec=st.lists(TEXT, min_size=1, max_size=2), initial_delay_seconds=st.integers(0, 9)),
    st.builds(Probe, log=st.sampled_from(["a.*", "^x"])),
)
# Fields that are not saved, and those whose type says less than what is accepted.
UNSAVED = {"where", "lines", "accepts_classic_names", "code_files"}
FIELDS: dict[str, Any] = {
    "image": st.none() | TEXT,
    "secret_env": st.dictionaries(TEXT, TEXT, max_size=2),
    "port_range": st.none() | st.tuples(st.integers(1, 100), st.integers(200, 65535)),
    "port": st.none() | st.integers(1, 65535),
    **dict.fromkeys(("cpu", "memory"), QUANTITY),
    **dict.fromkeys(("gpu", "per_machine"), st.none() | st.integers(1, 16)),
}


def strategy(hint: Any) -> st.SearchStrategy[Any]:
    """Return values of a type, as the fields of the specs are annotated."""
    origin, parts = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return (
            PROBES if hint is Probe else st.one_of([built(kind) for kind in hint.__subclasses__() or [hint]])
        )
    if origin in (Union, UnionType):
        return st.one_of([strategy(part) for part in parts])
    if origin is Literal:
        return st.sampled_from(parts)
    if origin is tuple:
        return st.lists(strategy(parts[0]), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(TEXT, strategy(parts[1]), max_size=2)
    return {
        str: TEXT,
        Any: PLAIN,
        int: st.integers(1, 65535),
        float: st.floats(0, 1e6),
        bool: st.booleans(),
        type(None): st.none(),
    }[hint]


def built(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Return instances of a spec with every field that is saved."""
    hints = get_type_hints(kind)
    names = {each.name for each in dataclasses.fields(kind)} - UNSAVED
    fields = {name: FIELDS[name] if name in FIELDS else strategy(hints[name]) for name in names}
    return st.builds(kind, **fields)


@settings(max_examples=25)
@given(built(ExperimentSpec))
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
