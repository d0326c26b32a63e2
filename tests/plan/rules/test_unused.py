"""What means nothing in a backend is accepted and listed once, with who made it."""

from __future__ import annotations

BOTH = """
    exp = Experiment("rl", inherit="WANDB_*", port_range=[7000, 7999])
    for name in "abc":
        process = exp.new_process(name, ["x"], command="x", image="i")
        process.resource_request(cpu=1)
        process.resource_limit(gpu=1)
        process.mount_shared_memory()
    process.container_yml["a"] = 1
    process.node_selector("a", "b")
    group = exp.new_process_group("g")
    group.image_pull_policy("Always")
    group.add_label("a", "b")
    group.pod_yml["a"] = 1
    group.mount_nfs("s", "/", "/n")
    group.new_process("d", ["x"], image="i")
"""


def test_kubernetes_settings_on_tmux(planned):
    assert [str(each) for each in planned(BOTH).unused] == [
        "command (3 processes)",
        "container_yml (c)",
        "image (4 processes)",
        "image_pull_policy (g)",
        "labels (g)",
        "mount_nfs (g)",
        "mount_shared_memory (3 processes)",
        "node_selector (c)",
        "pod_yml (g)",
        "resource_limit (3 processes)",
        "resource_request (3 processes)",
    ]


def test_tmux_settings_on_kubernetes(planned, kubernetes):
    assert [str(each) for each in planned(BOTH, kubernetes).unused] == [
        "cmds (3 processes)",
        "inherit (the experiment)",
        "port_range (the experiment)",
    ]


def test_what_gives_way_is_listed_too(planned, kubernetes):
    program = """
        exp = Experiment("rl", image="i", preamble_cmds=["ulimit -n 4096"])
        exp.new_process("lines", ["x"])
        exp.new_process("both", ["x"], command="python", args=["a.py"])
        exp.new_process("arguments", ["x"], args=["a.py"])
        exp.new_process("command", command="python")
    """
    assert [str(each) for each in planned(program).unused] == [
        "args (both, arguments)",
        "command (both)",
        "image (the experiment)",
    ]
    assert [str(each) for each in planned(program, kubernetes).unused] == [
        "cmds (both, arguments)",
        "preamble_cmds (3 processes)",
    ]


def test_what_is_not_said_is_not_listed(planned):
    assert planned('exp = Experiment("rl"); exp.new_process("a", ["x"])').unused == ()


def test_a_relative_start_dir_is_of_the_folder_of_the_program(planned, kubernetes):
    relative = """
    exp = Experiment("rl", start_dir="agents")
    exp.new_process("a", image="i")
    exp.new_process("b", image="i", start_dir="/data")
"""
    plan = planned(relative, kubernetes)
    assert [str(each) for each in plan.unused] == ["start_dir (a)"]
    assert [each.start_dir for each in plan.processes] == [None, "/data"]
