"""Names of experiments, groups and processes, and keywords that are no setting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from symphony.errors import UserError
from symphony.plan.build import build_plan

ILLEGAL = [
    ("a.b", 'use letters, digits, "-" and "_": "a-b"'),
    ("a:b", 'use letters, digits, "-" and "_": "a-b"'),
    ("a/b", 'use letters, digits, "-" and "_": "a-b"'),
    ("#(reboot)", 'use letters, digits, "-" and "_": "reboot"'),
    ("$(reboot)", 'use letters, digits, "-" and "_": "reboot"'),
    ("../../etc", 'use letters, digits, "-" and "_": "etc"'),
    ("a;", 'use letters, digits, "-" and "_": "a"'),
    ("-a", 'use letters, digits, "-" and "_": "a"'),
    ("a-", 'use letters, digits, "-" and "_": "a"'),
    ("é t", 'use letters, digits, "-" and "_": "e-t"'),
    ("日本", 'use letters, digits, "-" and "_"'),
    ("a\x1b[31m", 'use letters, digits, "-" and "_": "a-31m"'),
    ("a\n", 'use letters, digits, "-" and "_": "a"'),
    ("a\0", 'use letters, digits, "-" and "_": "a"'),
    ("\u0661", 'use letters, digits, "-" and "_"'),
    ("", "a name needs at least one letter or digit"),
    ("x" * 64, "names have at most 63 characters, this one has 64"),
]


def as_shown(name: str) -> str:
    escaped = name.replace("\x1b", r"\x1b").replace("\n", r"\n").replace("\0", r"\x00")
    return escaped if len(escaped) <= 60 else escaped[:59] + "…"


@pytest.mark.parametrize(("name", "remedy"), ILLEGAL)
def test_illegal_names_of_processes(refused, name, remedy):
    refused(
        f"""
        exp = Experiment("rl")
        exp.new_process({name!r}, ["x"])  # <-
        """,
        f'process "{as_shown(name)}" has an invalid name',
        remedy,
    )


@pytest.mark.parametrize(("name", "remedy"), ILLEGAL)
def test_illegal_names_of_groups(refused, name, remedy):
    refused(
        f"""
        exp = Experiment("rl")
        group = exp.new_process_group({name!r})  # <-
        group.new_process("a", ["x"])
        """,
        f'process group "{as_shown(name)}" has an invalid name',
        remedy,
    )


@pytest.mark.parametrize("name", ["a", "0", "x" * 63, "a-b", "a--b", "0-9", "Joy", "agent_0", "_"])
def test_legal_names(planned, name):
    assert planned(f'exp = Experiment("rl"); exp.new_process({name!r}, ["x"])').processes[0].path == name


MAPPED = """
        exp = Experiment("rl")
        exp.new_process("agent_0", ["x"]).binds("Replay_Server")
        exp.new_process_group("Joy").new_process("b_1", ["x"]).connects("Replay_Server")
"""


def test_names_are_mapped_where_they_must_be_labels_and_both_are_known(planned, kubernetes):
    plan = planned(MAPPED, replace(kubernetes, labels=True, defaults={"image": "i"}))
    assert [(each.path, each.name, each.group) for each in plan.processes] == [
        ("agent-0", "agent-0", None),
        ("joy/b-1", "b-1", "joy"),
    ]
    assert [(group.name, group.paths) for group in plan.groups] == [("joy", ("joy/b-1",))]
    assert plan.renamed == {"agent_0": "agent-0", "Joy": "joy", "Joy/b_1": "joy/b-1"}
    where = plan.services[0].address
    assert where.startswith("replay-server.rl.svc:")
    assert plan.addresses() == {"replay-server": where, "Replay_Server": where} == plan.addresses("agent-0")
    assert plan.service_env["SYMPH_REPLAY_SERVER_ADDR"] == where
    assert plan.processes[1].connects == ("replay-server",)
    result = "Joy is joy, agent_0 is agent-0, b_1 is b-1, Replay_Server is replay-server"
    assert [each.what for each in plan.remarks] == [f"Names on kubernetes: {result}."]


def test_names_stay_as_they_are_in_tmux(planned):
    plan = planned(MAPPED)
    assert [each.path for each in plan.processes] == ["agent_0", "Joy/b_1"]
    assert list(plan.addresses()) == ["Replay_Server"]
    assert (plan.renamed, plan.remarks) == ({}, ())


def test_the_classic_api_maps_what_nobody_takes(declare, tmux):
    spec, _ = declare("""
        exp = Experiment("My Exp")
        exp.new_process("agent 0", ["x"]).binds("replay.server")
    """)
    plan = build_plan(replace(spec, maps_names=True), replace(tmux, launched_as="My-Exp"))
    assert plan.processes[0].path == "agent-0"
    assert set(plan.service_env) == {f"SYMPH_REPLAY_SERVER_{end}" for end in ("HOST", "PORT", "ADDR")}
    result = "My Exp is My-Exp, agent 0 is agent-0, replay.server is replay-server"
    assert [each.what for each in plan.remarks] == [f"Names on tmux: {result}."]


def test_two_names_that_are_one_there(refused, kubernetes):
    refused(
        """
        exp = Experiment("rl")
        exp.new_process("agent_0", ["x"])  # <-
        exp.new_process("Agent-0", ["x"])  # <-
        """,
        'process "Agent-0" and "agent_0" are both agent-0 on kubernetes',
        "give one of them another name",
        replace(kubernetes, labels=True, defaults={"image": "i"}),
    )


def test_a_name_of_which_nothing_is_left(refused, kubernetes):
    refused(
        """
        exp = Experiment("rl")
        exp.new_process("__", ["x"])  # <-
        """,
        'process "__" has an invalid name',
        'use letters, digits, "-" and "_": "__"',
        replace(kubernetes, labels=True, defaults={"image": "i"}),
    )


@pytest.mark.parametrize("name", ["", "a b", "a/b", "-a", "ä", "x" * 64, "a\n"])
def test_illegal_names_of_experiments(refused, name):
    refused(
        f"""
        exp = Experiment({name!r})  # <-
        exp.new_process("a", ["x"])
        """,
        f'the experiment is called "{as_shown(name)}"',
        'use letters, digits, "-", "_" and ".", at most 63, with a letter or digit first',
    )


@pytest.mark.parametrize("name", ["rl", "RL_2", "rl.gke", "alice-cartpole", "x" * 63])
def test_legal_names_of_experiments(planned, name):
    assert planned(f'exp = Experiment({name!r}); exp.new_process("a", ["x"])').name == name


@pytest.mark.parametrize(
    ("launched_as", "remedy"),
    [
        ("My Stack", 'use letters, digits, "-" and "_": "My-Stack"'),
        ("x" * 64, "names have at most 63 characters, this one has 64"),
    ],
)
def test_a_stack_whose_name_no_backend_accepts(refused, launched_as, remedy):
    refused(
        """
        exp = Experiment("rl")  # <-
        exp.new_process("a", ["x"])
        """,
        f'the experiment cannot be called "{as_shown(launched_as)}" on tmux',
        f"{remedy}; rename the stack or set symphony:namespace",
        launched_as=launched_as,
    )


def test_a_process_declared_twice(refused):
    refused(
        """
        exp = Experiment("rl")
        exp.new_process("a", ["x"])  # <-
        exp.new_process("b", ["x"])
        exp.new_process("a", ["x"])  # <-
        """,
        'process "a" is declared twice',
        "give one of them another name",
    )


def test_a_loop_that_forgot_its_index_is_one_problem(refused):
    refused(
        """
        exp = Experiment("rl")
        for i in range(2):
            agent = exp.new_process("agent", ["x"])  # <-
            agent.binds("replay")
        """,
        'process "agent" is declared twice',
        "give one of them another name",
    )


def test_a_process_added_twice(declare):
    with pytest.raises(UserError) as raised:
        declare(
            """
            exp = Experiment("rl")
            learner = exp.new_process("learner", ["x"])
            exp.new_process_group("g").add_process(learner)
            """
        )
    assert "learner" in raised.value.what
    assert 'experiment "rl"' in raised.value.what
    assert "program.py:5" in raised.value.where


def test_a_process_declared_twice_in_a_group(refused):
    refused(
        """
        exp = Experiment("rl")
        group = exp.new_process_group("g")
        group.new_process("a", ["x"])  # <-
        group.new_process("a", ["x"])  # <-
        """,
        'process "a" is declared twice in process group "g"',
        "give one of them another name",
    )


def test_a_group_declared_twice(refused):
    refused(
        """
        exp = Experiment("rl")
        first = exp.new_process_group("g")  # <-
        first.new_process("a", ["x"])
        second = exp.new_process_group("g")  # <-
        second.new_process("b", ["x"])
        """,
        'process group "g" is declared twice',
        "give one of them another name",
    )


def test_a_group_called_as_a_process(refused):
    refused(
        """
        exp = Experiment("rl")
        exp.new_process("g", ["x"])  # <-
        exp.new_process_group("g").new_process("a", ["x"])  # <-
        """,
        'process group "g" has the name of a process in no group',
        "give one of them another name",
    )


def test_processes_of_different_groups_may_share_a_name(planned):
    plan = planned(
        """
        exp = Experiment("rl")
        exp.new_process("a", ["x"])
        for group in "fg":
            exp.new_process_group(group).new_process("a", ["x"])
        """
    )
    assert [process.path for process in plan.processes] == ["a", "f/a", "g/a"]


def test_an_empty_experiment(refused):
    refused(
        """
        exp = Experiment("rl")  # <-
        exp.new_process_group("g")
        """,
        '"rl" has no process',
        "declare one with new_process(...)",
    )


def test_an_empty_group_beside_processes(refused):
    refused(
        """
        exp = Experiment("rl")
        exp.new_process("a", ["x"])
        exp.new_process_group("g")  # <-
        """,
        'process group "g" has no process',
        "give it one with new_process(...), or leave the group out",
    )
