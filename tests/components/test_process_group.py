"""The classic calls of a process group: its processes, and what holds for all of them."""

from __future__ import annotations

import pytest

from symphony import Process, ProcessGroup
from symphony.errors import UserError
from symphony.spec.pod import NfsMount, SharedMemoryMount
from symphony.spec.setting import made_settings


def test_processes():
    group = ProcessGroup("g")
    first = group.new_process("a", ["x"])
    second, third = Process("b"), Process("c")
    assert group.add_process(second) is second
    group.add_processes([third])
    assert group.list_processes() == [first, second, third]
    assert group.get_process("b") is second
    assert [each.name for each in group.spec.processes] == ["a", "b", "c"]
    assert group.name == "g"


def test_the_list_is_a_copy():
    group = ProcessGroup("g")
    group.list_processes().append(Process("a"))
    assert group.list_processes() == []


def test_settings_for_all_its_processes():
    group = ProcessGroup("g", env={"A": 1}, image="i", preamble_cmds="cd x", start_dir="/data")
    group.set_env("B", 2)
    group.set_envs({"A": 3})
    group.image_pull_policy("Never")
    group.mount_nfs("nas", "/data", "/data")
    group.mount_shared_memory()
    group.node_selector("gpu", "v100")
    group.add_toleration(key="gpu")
    group.restart_policy("OnFailure")
    group.add_labels({"a": "b"})
    group.pod_yml["spec"] = {"hostIPC": True}
    spec = group.spec
    assert spec.env == {"A": "3", "B": "2"}
    assert (spec.image, spec.image_pull_policy) == ("i", "Never")
    assert (spec.preamble_cmds, spec.start_dir) == (("cd x",), "/data")
    assert spec.mounts == (
        NfsMount(server="nas", path="/data", mount_path="/data"),
        SharedMemoryMount(name="devshm", mount_path="/dev/shm"),
    )
    assert tuple(each.name for each, _ in made_settings(spec.pod)) == (
        "node_selector",
        "tolerations",
        "restart_policy",
        "labels",
        "pod_yml",
    )
    assert ProcessGroup.from_spec(spec).spec == spec


@pytest.mark.parametrize(
    ("name", "remedy"), [("lerner", 'The nearest is "learner"'), ("zzz", 'It has: "learner", "agent"')]
)
def test_a_process_that_is_not_there(name, remedy):
    group = ProcessGroup("g")
    group.add_processes([Process("learner"), Process("agent")])
    with pytest.raises(UserError) as raised:
        group.get_process(name)
    assert raised.value.what == f'process group g has no "{name}"'
    assert raised.value.remedy == remedy
    assert "test_process_group.py:" in raised.value.where


def test_what_is_no_process():
    with pytest.raises(UserError, match="a str is added where a Process belongs"):
        ProcessGroup("g").add_process("learner")  # type: ignore[arg-type]
