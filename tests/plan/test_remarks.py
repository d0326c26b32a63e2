"""Settings without effect on a backend, and remarks on valid declarations that are likely mistakes."""

from __future__ import annotations

import pytest

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


def test_kubernetes_settings_are_listed_as_unused_on_tmux(planned):
    assert [str(each) for each in planned(BOTH).unused] == [
        "command (a and 2 more)",
        "container_yml (c)",
        "image (a and 3 more)",
        "image_pull_policy (g)",
        "labels (g)",
        "mount_nfs (g)",
        "mount_shared_memory (a and 2 more)",
        "node_selector (c)",
        "pod_yml (g)",
        "resource_limit (a and 2 more)",
        "resource_request (a and 2 more)",
    ]


def test_tmux_settings_are_listed_as_unused_on_kubernetes(planned, kubernetes):
    assert [str(each) for each in planned(BOTH, kubernetes).unused] == [
        "cmds (a and 2 more)",
        "inherit (the experiment)",
        "port_range (the experiment)",
    ]


def test_overridden_settings_are_listed(planned, kubernetes):
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
        "preamble_cmds (both and 2 more)",
    ]


def test_unset_settings_are_not_listed(planned):
    assert planned('exp = Experiment("rl"); exp.new_process("a", ["x"])').unused == ()


def test_a_relative_start_dir_is_unused_on_kubernetes(planned, kubernetes):
    relative = """
    exp = Experiment("rl", start_dir="agents")
    exp.new_process("a", image="i")
    exp.new_process("b", image="i", start_dir="/data")
"""
    plan = planned(relative, kubernetes)
    assert [str(each) for each in plan.unused] == ["start_dir (a)"]
    assert [each.start_dir for each in plan.processes] == [None, "/data"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        *(
            (f'command="x", env={{"{name}": "0a1b2c"}}', [name, "secret_env"])
            for name in ("HF_TOKEN", "SECRET_1")
        ),
        ('command="python a.py > out"', ['">"', "command", "cmds="]),
        ('command="python a.py 2>&1"', ['"2>&1"']),
        ('command="cd data && python a.py"', ['"&&"']),
        ('command="cd x; ls"', ['"x;"']),
        ('command="python", args=["--data", "${DATA}"]', ['"${DATA}"', "args"]),
        ('command="python", args=["--data", "~/data"]', ['"~/data"', "args"]),
        ('cmds=["python", "-u", "train.py"]', ["3 shell lines", 'command="python -u train.py"']),
        ('cmds=["./run", "--fast"]', ["2 shell lines"]),
        *(
            (f'command="x", env={{"P": "{path}"}}', [path, "expand"])
            for path in ("/opt/bin:$PATH", "~/d", "/a:~/b")
        ),
    ],
)
def test_a_likely_mistake_is_a_remark_with_its_line(planned, options, words):
    (remark,) = planned(f'exp = Experiment("rl")\nexp.new_process("a", {options})').remarks
    text = f"{remark.what}: {remark.remedy}"
    assert [word for word in words if word not in text] == [], text
    assert [place.line for place in remark.where] == [3]


@pytest.mark.parametrize(
    "options",
    [
        *(
            f'command="x", env={{"{name}": "{text}"}}'
            for name, text in (
                ("TOKENIZERS_PARALLELISM", "false"),
                ("MAX_TOKENS", "4096"),
                ("KEYBOARD", "us"),
                ("SSH_KEY_FILE", "/root/.ssh/id"),
                ("PASSWORD", ""),
                ("PRICE", "5$"),
                ("P", "a~b"),
            )
        ),
        'command=["sh", "-c", "echo $HOME > x && y"]',
        'command=["env", "A=1", "bash", "-c", "$HOME"]',
        'command=["find", ".", "-exec", "ls", ";"]',
        'command="python a.py --price $5 --mail a@b.c --lr=1e-3 --branch=HEAD~1"',
        'cmds=["python a.py > out && echo $HOME"]',
        'cmds=["make", "./run.sh"]',
        'cmds=["python a.py", "sync"]',
    ],
)
def test_valid_declarations_have_no_remark(planned, options):
    assert planned(f'exp = Experiment("rl")\nexp.new_process("a", {options})').remarks == ()
