"""The classic calls of a process, and what they say."""

from __future__ import annotations

import pydoc
from pathlib import Path

import pytest

from symphony import Process
from symphony.errors import UserError
from symphony.spec import pod
from symphony.spec.pod import Toleration
from symphony.spec.process import Resources


def test_shell_lines_or_a_command_or_both():
    assert Process("a", ["cd x", "python a.py"]).spec.cmds == ("cd x", "python a.py")
    assert Process("a", cmds=["x"]).spec.cmds == ("x",)
    assert Process("a", "x y").spec.cmds == ("x y",)
    both = Process("a", cmds=["x"], command="python", args=["a.py"], image="i").spec
    assert (both.cmds, both.command, both.args, both.image) == (("x",), ("python",), ("a.py",), "i")


@pytest.mark.parametrize(
    ("message", "command"),
    [
        ("python", ("python",)),
        ("python -u 'a b.py'", ("python", "-u", "a b.py")),
        (["python", "-u", "a b.py"], ("python", "-u", "a b.py")),
        (("python", 3), ("python", "3")),
        (Path("/bin/a b"), ("/bin/a b",)),
        (None, None),
        ("", ()),
    ],
)
def test_a_command_is_text_or_a_list(message, command):
    assert Process("a", command=message).spec.command == command


def test_numbers_in_args_become_text():
    assert Process("a", args=["--n", 4, "--lr", 1e-3, 0.5]).spec.args == ("--n", "4", "--lr", "0.001", "0.5")


def test_a_single_text_is_one_argument():
    assert Process("a", args="--n 4").spec.args == ("--n 4",)


def test_calls_add_services():
    process = Process("a", binds="a")
    process.binds("b", {"c": 6006})
    assert [(use.name, use.port) for use in process.spec.binds] == [("a", None), ("b", None), ("c", 6006)]


def test_variables_later_values_win():
    process = Process("a", env={"A": 1, "B": 2})
    process.set_env("A", 3)
    process.set_envs({"C": True, "B": 0.5})
    assert process.spec.env == {"A": "3", "B": "0.5", "C": "True"}


def test_resources_later_values_win_by_kind():
    process = Process("a")
    process.resource_request(cpu=1, memory="1Gi")
    process.resource_request(cpu=2)
    process.resource_request(memory="2Gi")
    process.resource_limit(cpu=4, memory="4Gi", gpu=1)
    process.resource_limit(memory="8Gi")
    assert process.spec.resource_request == Resources(cpu=2, memory="2Gi")
    assert process.spec.resource_limit == Resources(cpu=4, memory="8Gi", gpu=1)


def test_pod_settings():
    process = Process("a")
    process.node_selector("gpu", "v100")
    process.node_selector(key="disk", value="ssd")
    process.add_toleration(key="gpu", operator="Exists", effect="NoSchedule")
    process.add_toleration(key="a", operator="Equal", value="b", effect="NoExecute")
    process.restart_policy("Never")
    process.add_label("a", "1")
    process.add_labels({"b": "2"}, c="3")
    process.image_pull_policy("Always")
    pod = process.spec.pod
    assert pod.node_selector == {"gpu": "v100", "disk": "ssd"}
    assert pod.tolerations == (
        Toleration("gpu", "Exists", None, "NoSchedule"),
        Toleration("a", "Equal", "b", "NoExecute"),
    )
    assert pod.restart_policy == "Never"
    assert pod.labels == {"a": "1", "b": "2", "c": "3"}
    assert process.spec.image_pull_policy == "Always"


def test_mounts():
    process = Process("a")
    process.mount_nfs("nas", "/data", "/mnt/data")
    process.mount_nfs(server="nas", path="/data", mount_path="/mnt/again", name="data")
    process.mount_secret("key", "/etc/key", default_mode=0o400)
    process.mount_git_repo("git://x", "abc", "/src")
    process.mount_host_path("/dev", "/dev", hostpath_type="Directory")
    process.mount_empty_dir("scratch", True, "/scratch")
    process.mount_shared_memory()
    assert process.spec.mounts == (
        pod.NfsMount(server="nas", path="/data", mount_path="/mnt/data"),
        pod.NfsMount(server="nas", path="/data", mount_path="/mnt/again", name="data"),
        pod.SecretMount(secret_name="key", mount_path="/etc/key", default_mode=0o400),
        pod.GitRepoMount(repository="git://x", revision="abc", mount_path="/src"),
        pod.HostPathMount(path="/dev", mount_path="/dev", hostpath_type="Directory"),
        pod.EmptyDirMount(name="scratch", use_memory=True, mount_path="/scratch"),
        pod.SharedMemoryMount(name="devshm", mount_path="/dev/shm"),
    )


def test_the_manifests_are_dicts():
    process = Process("a")
    process.container_yml["securityContext"] = {"privileged": True}
    process.pod_yml.setdefault("spec", {})["hostIPC"] = True
    assert process.spec.container_yml == {"securityContext": {"privileged": True}}
    assert process.spec.pod.pod_yml == {"spec": {"hostIPC": True}}


def test_a_spec_is_a_value_of_its_moment():
    process = Process("a")
    process.container_yml["a"] = [1]
    before = process.spec
    process.container_yml["a"].append(2)
    process.set_env("A", 1)
    process.binds("s")
    assert before.container_yml == {"a": [1]}
    assert (dict(before.env), before.binds) == ({}, ())


def test_name_and_loading_back():
    process = Process("a", ["x"])
    process.pod_yml["a"] = 1
    assert process.name == "a"
    again = Process.from_spec(process.spec)
    assert again.spec == process.spec
    again.set_env("A", 1)
    again.pod_yml["b"] = 2
    assert process.spec.pod.pod_yml == {"a": 1}


@pytest.mark.parametrize(
    ("setting", "remedy"),
    [
        ("args", "Give args=..."),
        ("binds", "Call binds(...)"),
        ("set_env", "Call set_env"),
    ],
)
def test_a_setting_that_is_assigned_is_not_lost_silently(setting, remedy):
    process = Process("a", command="python")
    with pytest.raises(UserError) as error:
        setattr(process, setting, ["a.py"])
    assert remedy in error.value.remedy
    assert "test_process.py:" in error.value.where
    process.pod_yml = {"spec": {}}  # pyright: ignore[reportAttributeAccessIssue]
    process.mine = 3


def test_its_help_speaks_of_symphony_and_not_of_pulumis_arguments():
    shown = pydoc.plain(pydoc.render_doc(Process))
    declared = shown.partition("Methods inherited from pulumi")[0]
    assert "Declare a process" in declared
    assert ":param" not in declared
