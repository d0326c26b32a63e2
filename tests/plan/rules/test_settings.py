"""Kubernetes' own words: they must hold everywhere, so that a program can move to another backend."""

from __future__ import annotations

import pytest

POD_CALLS = [
    ('node_selector("a", "b")', "node_selector"),
    ('add_toleration(key="a")', "tolerations"),
    ('restart_policy("Never")', "restart_policy"),
    ('add_label("a", "b")', "labels"),
    ('add_labels({"a": "b"})', "labels"),
]


@pytest.mark.parametrize(("call", "setting"), POD_CALLS)
def test_pod_settings_of_a_grouped_process(refused, call, setting):
    refused(
        f"""
        exp = Experiment("rl")
        group = exp.new_process_group("g")
        process = group.new_process("a", ["x"])
        process.{call}  # <-
        """,
        f'g/a sets {setting}, but it is in process group "g"',
        'call it on the group: its processes share one pod ("g")',
    )


def test_the_pod_manifest_of_a_grouped_process(refused):
    refused(
        """
        exp = Experiment("rl")
        process = exp.new_process_group("g").new_process("a", ["x"])  # <-
        process.pod_yml["spec"] = {"hostNetwork": True}
        """,
        'g/a sets pod_yml, but it is in process group "g"',
        'call it on the group: its processes share one pod ("g")',
    )


@pytest.mark.parametrize(("call", "setting"), POD_CALLS)
@pytest.mark.parametrize("owner", ["group", "process"])
def test_pod_settings_of_a_group_and_of_a_free_process(problems_of, kubernetes, owner, call, setting):
    assert setting in kubernetes.supports
    program = f"""
        exp = Experiment("rl", image="i")
        process = exp.new_process("a")
        group = exp.new_process_group("g")
        group.new_process("b")
        {owner}.{call}
    """
    assert problems_of(program, kubernetes) == []


@pytest.mark.parametrize("quantity", ["", "two", "-1", "1 GB", "1GB", "1e", "½", "1_000", "nan"])
@pytest.mark.parametrize("kind", ["cpu", "memory"])
@pytest.mark.parametrize("call", ["resource_request", "resource_limit"])
def test_quantities_that_are_none(refused, call, kind, quantity):
    refused(
        f"""
        exp = Experiment("rl")
        process = exp.new_process("a", ["x"])
        process.{call}({kind}={quantity!r})  # <-
        process.{call}({"cpu" if kind == "memory" else "memory"}="1")
        """,
        f'a sets {kind} to "{quantity}"',
        "write a quantity as Kubernetes does: 0.5, 500m, 2, 512Mi, 4Gi",
    )


@pytest.mark.parametrize("quantity", [1, 0.5, "500m", "512Mi", "1e3", "1E3", "1e-3", ".5", "1.5Gi", "100n"])
def test_quantities(planned, quantity):
    program = f'exp = Experiment("rl"); exp.new_process("a", ["x"]).resource_request(memory={quantity!r})'
    assert planned(program).processes[0].resource_request.memory == quantity


def test_a_negative_number_of_gpus(refused):
    refused(
        """
        exp = Experiment("rl")
        exp.new_process("a", ["x"]).resource_limit(gpu=-1)  # <-
        """,
        "a asks for -1 GPUs",
        "ask for none or more",
    )


def test_a_relative_mount_path_of_a_group_is_one_problem(refused):
    refused(
        """
        exp = Experiment("rl")
        group = exp.new_process_group("g")
        group.mount_nfs("server", "/data", "data")  # <-
        group.new_process("a", ["x"])
        group.new_process("b", ["x"])
        """,
        'process group g mounts at "data"',
        "give an absolute path",
    )


def test_two_mounts_at_one_path_through_the_group(refused):
    refused(
        """
        exp = Experiment("rl")
        group = exp.new_process_group("g")
        group.mount_nfs("server", "/data", "/data")  # <-
        process = group.new_process("a", ["x"])
        process.mount_host_path("/data", "/data")  # <-
        """,
        'g/a mounts two things at "/data"',
        "give one of them another mount_path",
    )


def test_an_illegal_name_of_a_volume(refused):
    refused(
        """
        exp = Experiment("rl")
        exp.new_process("a", ["x"]).mount_empty_dir("My Dir", False, "/scratch")  # <-
        """,
        'a mounts a volume called "My Dir"',
        'use lower-case letters, digits and "-": "my-dir"',
    )
