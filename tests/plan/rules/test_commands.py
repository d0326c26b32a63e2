"""What is started, with what texts, from which folder: what cannot be is said before anything starts."""

from __future__ import annotations

import pytest
from pulumi.runtime import rpc

NOTHING = 'set command="python", args=["-u", "program.py"], or cmds=["shell line", ...]'


@pytest.mark.parametrize(
    ("message", "what"),
    [
        ("", "no command"),
        (', image="rl:latest"', "no command"),
        (', args=["-u"]', "args but no command"),
        (", cmds=[]", "no command"),
        (', command=""', "no command"),
        (", command=[]", "no command"),
        (', preamble_cmds=["module load cuda"]', "no command"),
    ],
)
def test_nothing_to_start_on_tmux(refused, message, what):
    refused(
        f"""
        exp = Experiment("rl")
        exp.new_process("a"{message})  # <-
        """,
        f"a has {what}, which tmux needs",
        NOTHING,
    )


def test_a_grouped_process_is_named_by_its_path(refused):
    refused(
        """
        exp = Experiment("rl")
        group = exp.new_process_group("g")
        group.new_process("a")  # <-
        """,
        "g/a has no command, which tmux needs",
        NOTHING,
    )


def test_an_empty_word_as_command(refused):
    refused(
        """
        exp = Experiment("rl")
        exp.new_process("a", command=["", "x"])  # <-
        """,
        "a has an empty command",
        'set command="python"',
    )


def test_no_image_on_kubernetes(refused, kubernetes):
    refused(
        """
        exp = Experiment("rl")
        exp.new_process("a", ["x"], command="python")  # <-
        """,
        "a has no image, which kubernetes needs",
        'set image="...", or a default with symphony:image',
        kubernetes,
    )


@pytest.mark.parametrize(
    "program",
    [
        'exp = Experiment("rl", image="i"); exp.new_process("a")',
        'exp = Experiment("rl"); exp.new_process("a", image="i")',
        'exp = Experiment("rl"); exp.new_process_group("g", image="i").new_process("a")',
    ],
)
def test_the_image_comes_from_the_process_its_group_or_the_experiment(planned, kubernetes, program):
    assert planned(program, kubernetes).processes[0].image == "i"


def test_the_default_image_of_the_backend(planned, kubernetes):
    plan = planned('exp = Experiment("rl"); exp.new_process("a")', kubernetes, defaults={"image": "d"})
    assert plan.processes[0].image == "d"


@pytest.mark.parametrize(
    ("message", "setting"),
    [
        (r'cmds=["echo a\0b"]', "cmds"),
        (r'command=["x", "a\0b"]', "command"),
        (r'command="x", args=["a\0b"]', "args"),
        (r'cmds=["x"], env={"A": "a\0b"}', "env A"),
        (r'cmds=["x"], preamble_cmds=["a\0b"]', "preamble_cmds"),
        (r'cmds=["x"], start_dir="a\0b"', "start_dir"),
        (r'cmds=["x"], image="a\0b"', "image"),
    ],
)
def test_nul_bytes_of_a_process(refused, message, setting):
    text = {"env A": r"A=a\x00b", "cmds": r"echo a\x00b"}.get(setting, r"a\x00b")
    refused(
        f"""
        exp = Experiment("rl")
        exp.new_process("a", {message})  # <-
        """,
        f'{setting} of a contains a NUL byte: "{text}"',
        "remove it: no program can be given one",
        unreadable={"a\0b": "there is no such folder"},
    )


@pytest.mark.parametrize("text", [rpc.UNKNOWN, "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2"])
def test_what_pulumi_takes_for_an_unknown_value_is_not_dropped(refused, text):
    what = "is the text that Pulumi writes for a value it does not know yet"
    for result, setting, whole in (
        (f'command="x", args=["{text}"]', "args", text),
        (f'command=["x", "{text}"]', "command", text),
        (f'cmds=["{text}"]', "cmds", text),
        (f'cmds=["x"], env={{"A": "{text}"}}', "env A", f"A={text}"),
    ):
        refused(
            f"""
            exp = Experiment("rl")
            exp.new_process("a", {result})  # <-
            """,
            f"{setting} of a {what}: {whole}",
            "pass it in a file, or as a part of a longer text",
        )


@pytest.mark.parametrize("setting", ["start_dir", "image", "preamble_cmds", "env"])
@pytest.mark.parametrize("owner", ["the experiment", "process group g"])
def test_nul_bytes_of_a_group_and_of_the_experiment(refused, owner, setting):
    value = {"env": r'{"A": "\0"}'}.get(setting, r'"\0"')
    on_experiment = f", {setting}={value}" if owner == "the experiment" else ""
    on_group = f", {setting}={value}" if owner != "the experiment" else ""
    refused(
        f"""
        exp = Experiment("rl"{on_experiment})  # {"<-" if on_experiment else ""}
        group = exp.new_process_group("g"{on_group})  # {"<-" if on_group else ""}
        group.new_process("a", ["x"])
        """,
        f"{'env A' if setting == 'env' else setting} of {owner} contains a NUL byte: "
        + (r'"A=\x00"' if setting == "env" else r'"\x00"'),
        "remove it: no program can be given one",
    )


def test_a_nul_byte_in_the_name_of_a_variable_is_one_problem(refused):
    refused(
        r"""
        exp = Experiment("rl")
        exp.new_process("a", ["x"], env={"A\0": "1"})  # <-
        """,
        r'a sets the variable "A\x00"',
        'a variable has letters, digits and "_", and does not begin with a digit',
    )


@pytest.mark.parametrize("half", [r"\ud800", r"\udc80"])
def test_text_that_is_no_unicode(refused, half):
    refused(
        f"""
        exp = Experiment("rl")
        exp.new_process("a", command="x", args=["{half}"])  # <-
        """,
        f'args of a is not valid Unicode: "{half}"',
        "remove it: it comes from bytes that are not UTF-8 text",
    )


def test_an_argument_that_no_program_can_be_given(refused):
    refused(
        """
        exp = Experiment("rl")
        exp.new_process("a", command="x", args=["y" * 131_072])  # <-
        """,
        "args of a has 131072 bytes, more than the 131071 that a program can be given",
        "put it into a file and pass the file's name",
    )


def test_the_longest_argument_and_any_shell_line_are_fine(planned):
    planned('exp = Experiment("rl"); exp.new_process("a", command="x", args=["y" * 131_071])')
    planned('exp = Experiment("rl"); exp.new_process("a", ["echo " + "y" * 200_000])')


def test_a_missing_command_is_reported_where_it_was_said(refused):
    refused(
        """
        exp = Experiment("rl")
        exp.new_process(  # <-
            "a",
            command="pyhton",
        )
        """,
        'a cannot start "pyhton": no such command on PATH',
        "check the command's spelling, PATH and permissions",
        unstartable={"a": "no such command on PATH"},
    )


def test_a_missing_start_folder(refused):
    refused(
        """
        exp = Experiment("rl", start_dir="/fine")
        exp.new_process("a", ["x"], start_dir="/gone")  # <-
        """,
        'a cannot start in "/gone": there is no such folder',
        "check start_dir",
        unreadable={"/gone": "there is no such folder"},
    )


def test_a_missing_start_folder_of_the_experiment_is_reported_once(refused):
    refused(
        """
        exp = Experiment("rl", start_dir="/gone")  # <-
        exp.new_process("a", ["x"])
        exp.new_process("b", ["x"])
        """,
        'the experiment cannot start in "/gone": there is no such folder',
        "check start_dir",
        unreadable={"/gone": "there is no such folder"},
    )


def test_a_missing_secret_file(refused):
    refused(
        """
        exp = Experiment("rl", secrets=["~/.key"])  # <-
        exp.new_process("a", ["x"])
        """,
        'the secret file "~/.key" cannot be read: no such file or directory',
        "check its path and permissions",
        unreadable={"~/.key": "no such file or directory"},
    )


def test_two_secret_files_of_one_name(refused):
    refused(
        """
        exp = Experiment("rl", secrets=["/a/key", "/b/key"])  # <-
        exp.new_process("a", ["x"])
        """,
        'two secret files are called "key": /a/key and /b/key',
        "rename one: they lie in one folder",
    )


def test_arguments_that_are_too_large_together(problems_of):
    (problem,) = problems_of(
        """
        exp = Experiment("rl")
        exp.new_process("a", command="x", args=["y" * 100_000] * 30)
        """
    )
    assert "bytes of arguments" in problem.what
    assert [place.line for place in problem.where] == [4]
