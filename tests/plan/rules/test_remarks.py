"""What is allowed and most likely not meant is told with the line; what is meant is not."""

from __future__ import annotations

import pytest


@pytest.fixture
def remarked(declare, planned):
    """(what, remedy, lines) of each remark of a program, which can run."""

    def messages(program):
        plan = planned(program)
        return [(each.what, each.remedy, [place.line for place in each.where]) for each in plan.remarks]

    return messages


@pytest.mark.parametrize(
    "name", ["WANDB_API_KEY", "HF_TOKEN", "MYTOKEN", "DB_PASSWORD", "password", "SECRET_1"]
)
def test_a_plain_secret(remarked, name):
    assert remarked(f"""
        exp = Experiment("rl")
        exp.new_process("a", command="x", env={{"{name}": "0a1b2c"}})
    """) == [
        (
            f"a has {name} in env, where the state and the plan show it as plain text",
            f'put it into a file, and set secret_env={{"{name}": "FILE"}}',
            [4],
        )
    ]


@pytest.mark.parametrize(
    "env",
    [
        {"TOKENIZERS_PARALLELISM": "false"},
        {"MAX_TOKENS": "4096"},
        {"KEYBOARD": "us"},
        {"TOKEN_LIMIT": "4096"},
        {"SSH_KEY_FILE": "/root/.ssh/id"},
        {"KEY_PATH": "/etc/key"},
        {"PASSWORD": ""},
        {"USE_TOKEN": "true"},
    ],
)
def test_no_plain_secret(remarked, env):
    assert remarked(f'exp = Experiment("rl", env={env}); exp.new_process("a", command="x")') == []


@pytest.mark.parametrize(
    ("message", "word", "setting"),
    [
        ('command="python a.py > out"', ">", "command"),
        ('command="python a.py 2>&1"', "2>&1", "command"),
        ('command="python a.py >out.txt"', ">out.txt", "command"),
        ('command="cd data && python a.py"', "&&", "command"),
        ('command="a | b"', "|", "command"),
        ('command="python a.py &"', "&", "command"),
        ('command="cd x; ls"', "x;", "command"),
        ('command="python a.py --data $HOME/data"', "$HOME/data", "command"),
        ('command="python", args=["--data", "${DATA}"]', "${DATA}", "args"),
    ],
)
def test_words_of_a_shell(remarked, message, word, setting):
    assert remarked(f"""
        exp = Experiment("rl")
        exp.new_process("a", {message})
    """) == [
        (
            f'a has "{word}" in {setting}, which no shell reads',
            'its program gets it as it stands; for a shell line set cmds=["..."]',
            [4],
        )
    ]


@pytest.mark.parametrize(
    "message",
    [
        'command=["sh", "-c", "echo $HOME > x && y"]',
        'command=["/bin/bash", "-lc", "a | b"]',
        'command=["env", "A=1", "bash", "-c", "$HOME"]',
        'command=["find", ".", "-exec", "ls", ";"]',
        'command=["awk", "{print $NF}"]',
        'command="python a.py --price $5 --mail a@b.c --lr=1e-3"',
        'cmds=["python a.py > out && echo $HOME"]',
    ],
)
def test_no_words_of_a_shell(remarked, message):
    assert remarked(f'exp = Experiment("rl"); exp.new_process("a", {message})') == []


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["sleep", "60"], '2 shell lines, "sleep" and "60"'),
        (["python", "-u", "train.py"], '3 shell lines, "python" and "-u", ...'),
        (["./run", "--fast"], '2 shell lines, "./run" and "--fast"'),
        (["echo", "hello"], '2 shell lines, "echo" and "hello"'),
    ],
)
def test_a_command_given_as_lines(remarked, words, shown):
    assert remarked(f"""
        exp = Experiment("rl")
        exp.new_process("a", {words})
    """) == [(f"a has {shown}", f'did you mean command="{" ".join(words)}"?', [4])]


@pytest.mark.parametrize(
    "lines", [["make", "./run.sh"], ["sleep 60"], ["cd x", "ls"], ["python a.py", "sync"]]
)
def test_lines_that_are_lines(remarked, lines):
    assert remarked(f'exp = Experiment("rl"); exp.new_process("a", {lines})') == []


@pytest.mark.parametrize("value", ["/opt/bin:$PATH", "${HOME}/x", "~/d", "~", "/a:~/b"])
def test_env_that_no_shell_expands(remarked, value):
    ((what, remedy, lines),) = remarked(f"""
        exp = Experiment("rl")
        exp.new_process("a", command="x", env={{"P": "{value}"}})
    """)
    assert value in what
    assert "expand" in remedy
    assert lines == [4]


@pytest.mark.parametrize("value", ["a$b", "cost: 5$", "a~b", "/~x"])
def test_env_that_is_meant_as_it_stands(remarked, value):
    assert (
        remarked(f'exp = Experiment("rl", env={{"P": "{value}"}}); exp.new_process("a", command="x")') == []
    )
