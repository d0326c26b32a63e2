"""Variables that are declared, those of services, and those that are inherited."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("name", ["1A", "A-B", "A B", "A=B", "", "Ä", "A;reboot"])
def test_illegal_variables_are_reported_on_the_line_that_set_them(refused, name):
    refused(
        f"""
        exp = Experiment("rl")
        process = exp.new_process("a", ["x"], env={{"FINE": 1}})
        process.set_env({name!r}, "1")  # <-
        process.set_env("FINE_TOO", "1")
        """,
        f'a sets the variable "{name}"',
        'a variable has letters, digits and "_", and does not begin with a digit',
    )


def test_illegal_variables_of_the_experiment(refused):
    refused(
        """
        exp = Experiment("rl", env={"A B": 1})  # <-
        exp.new_process("a", ["x"])
        """,
        'the experiment sets the variable "A B"',
        'a variable has letters, digits and "_", and does not begin with a digit',
    )


def test_illegal_variables_of_a_group(refused):
    refused(
        """
        exp = Experiment("rl")
        group = exp.new_process_group("g")
        group.set_env("A B", 1)  # <-
        group.set_envs({"C": 1})
        group.new_process("a", ["x"])
        """,
        'process group g sets the variable "A B"',
        'a variable has letters, digits and "_", and does not begin with a digit',
    )


@pytest.mark.parametrize("suffix", ["HOST", "PORT", "ADDR", "BIND"])
def test_a_variable_of_a_service(refused, suffix):
    refused(
        f"""
        exp = Experiment("rl")
        a = exp.new_process("a", ["x"])
        a.binds("replay-server")  # <-
        a.set_env("SYMPH_REPLAY_SERVER_{suffix}", "1")  # <-
        """,
        f'a sets SYMPH_REPLAY_SERVER_{suffix}, but it belongs to service "replay-server"',
        "use another variable",
    )


def test_a_variable_that_symphony_sets_itself(refused):
    refused(
        """
        exp = Experiment("rl", env={"SYMPHONY_ID": "1"})  # <-
        exp.new_process("a", ["x"])
        """,
        "the experiment sets SYMPHONY_ID, but it identifies the process",
        "use another variable",
    )


def test_other_variables_of_the_prefix_are_free(planned):
    assert planned('exp = Experiment("rl", env={"SYMPH_MINE": 1}); exp.new_process("a", ["x"])')


@pytest.mark.parametrize("name", ["A B", "*", "**", "A*B", "-"])
def test_what_cannot_be_inherited(refused, name):
    refused(
        f"""
        exp = Experiment("rl", inherit=["WANDB_*", {name!r}])  # <-
        exp.new_process("a", ["x"])
        """,
        f'the experiment inherits "{name}"',
        'name a variable, or the beginning of some with "*" at the end',
    )


RESERVED = {"PWD": "the shell sets it itself"}


@pytest.mark.parametrize(
    ("message", "who"),
    [
        ('exp.new_process("a", ["x"], env={"PWD": "/"})  # <-', "a"),
        ('exp.new_process_group("g", env={"PWD": "/"}).new_process("a", ["x"])  # <-', "process group g"),
    ],
)
def test_a_variable_that_the_backend_keeps_to_itself(refused, message, who):
    refused(
        f"""
        exp = Experiment("rl")
        {message}
        """,
        f"{who} sets PWD, but the shell sets it itself",
        "use another variable",
        reserved=RESERVED,
    )


def test_inheriting_what_the_backend_keeps_to_itself_is_told(refused):
    refused(
        """
        exp = Experiment("rl", inherit=["P*", "PWD"])  # <-
        exp.new_process("a", ["x"])
        """,
        "the experiment inherits PWD, but the shell sets it itself",
        "take it out: processes would not get it",
        reserved=RESERVED,
    )


def test_a_backend_that_keeps_nothing_to_itself(planned):
    assert planned('exp = Experiment("rl", env={"PWD": "/"}, inherit="PWD"); exp.new_process("a", ["x"])')
