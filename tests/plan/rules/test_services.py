"""Who binds what, and at which port: each mistake once, on its own line, with what to do."""

from __future__ import annotations

import pytest


def test_unknown_connects_names_the_near_service(refused):
    refused(
        """
        exp = Experiment("rl")
        exp.new_process("learner", ["x"]).binds("replay-server")
        agent = exp.new_process("agent", ["x"])
        agent.connects("replay-sever")  # <-
        """,
        'agent connects to "replay-sever", which no process binds',
        'did you mean "replay-server"?',
    )


def test_unknown_connects_far_from_every_name_lists_the_services(refused):
    refused(
        """
        exp = Experiment("rl")
        exp.new_process("learner", ["x"]).binds("replay", "parameters")
        exp.new_process("agent", ["x"]).connects("zzz")  # <-
        """,
        'agent connects to "zzz", which no process binds',
        "the services are: parameters, replay",
    )


def test_connects_where_nothing_is_bound_says_so(refused):
    refused(
        """
        exp = Experiment("rl")
        exp.new_process("agent", ["x"]).connects("replay")  # <-
        """,
        'agent connects to "replay", which no process binds',
        "nothing binds any service",
    )


def test_connecting_to_what_is_only_exposed_is_fine(problems_of):
    assert (
        problems_of(
            """
            exp = Experiment("rl")
            exp.new_process("board", ["x"]).exposes({"tensorboard": 6006})
            exp.new_process("agent", ["x"]).connects("tensorboard")
            """
        )
        == []
    )


def test_a_service_bound_by_two_processes(refused):
    refused(
        """
        exp = Experiment("rl")
        group = exp.new_process_group("group")
        exp.new_process("a", ["x"]).binds("replay")  # <-
        group.new_process("b", ["x"]).exposes("replay")  # <-
        exp.new_process("c", ["x"]).connects("replay")
        """,
        'a and group/b both bind "replay"',
        "give one of them another name",
    )


def test_a_service_bound_by_three_processes_is_one_problem(refused):
    refused(
        """
        exp = Experiment("rl")
        for name in "abc":
            exp.new_process(name, ["x"]).binds({"replay": 7000})  # <-
        """,
        'a, b and c all bind "replay"',
        "give one of them another name",
    )


def test_binding_and_exposing_one_service_in_one_process_is_fine(planned):
    plan = planned(
        """
        exp = Experiment("rl")
        board = exp.new_process("board", ["x"])
        board.binds("tensorboard")
        board.exposes({"tensorboard": 6006})
        """
    )
    assert [(s.name, s.port, s.exposed) for s in plan.services] == [("tensorboard", 6006, True)]


def test_one_service_at_two_ports(refused):
    refused(
        """
        exp = Experiment("rl")
        board = exp.new_process("board", ["x"])
        board.binds({"tensorboard": 6007})  # <-
        board.exposes({"tensorboard": 6006})  # <-
        """,
        'board gives "tensorboard" the ports 6006 and 6007',
        "give it one port",
    )


def test_a_port_in_connects(refused):
    refused(
        """
        exp = Experiment("rl")
        exp.new_process("a", ["x"]).binds("replay")
        exp.new_process("b", ["x"]).connects({"replay": 7000})  # <-
        """,
        'b connects to "replay" with port 7000',
        "set the port where it is bound: the connecting process gets it",
    )


@pytest.mark.parametrize("port", [0, -1, 65536, 10**30])
@pytest.mark.parametrize("verb", ["binds", "exposes"])
def test_a_port_out_of_range(refused, verb, port):
    refused(
        f"""
        exp = Experiment("rl")
        exp.new_process("a", ["x"]).{verb}({{"replay": {port}}})  # <-
        """,
        f'a {verb} "replay" at port {port}',
        "a port is between 1 and 65535; leave it out to have one chosen",
    )


@pytest.mark.parametrize("port", [1, 65535])
def test_the_first_and_the_last_port_are_fine(planned, port):
    plan = planned(f'exp = Experiment("rl"); exp.new_process("a", ["x"]).binds({{"replay": {port}}})')
    assert plan.services[0].port == port


def test_a_port_declared_twice_on_one_host(refused):
    refused(
        """
        exp = Experiment("rl")
        exp.new_process("a", ["x"]).binds({"replay": 7000})  # <-
        exp.new_process("b", ["x"]).binds({"parameters": 7000})  # <-
        """,
        'b gives "parameters" port 7000, which "replay" of a has',
        "give one of them another port, or leave the port out",
        taken={"parameters": "port 7000 is wanted by service replay too"},
    )


def test_pods_have_ports_of_their_own(problems_of, kubernetes):
    program = """
        exp = Experiment("rl", image="i")
        exp.new_process("a").binds({"replay": 7000})
        exp.new_process("b").binds({"parameters": 7000})
    """
    assert problems_of(program, kubernetes) == []


def test_the_processes_of_a_pod_share_their_ports(refused, kubernetes):
    refused(
        """
        exp = Experiment("rl", image="i")
        group = exp.new_process_group("group")
        group.new_process("a").binds({"replay": 7000})  # <-
        group.new_process("b").binds({"parameters": 7000})  # <-
        """,
        'group/b gives "parameters" port 7000, which "replay" of group/a has',
        "give one of them another port, or leave the port out",
        kubernetes,
    )


def test_a_fixed_port_that_a_stranger_has(refused):
    refused(
        """
        exp = Experiment("rl")
        board = exp.new_process("board", ["x"])
        board.binds({"tensorboard": 6006})  # <-
        board.exposes("tensorboard")
        """,
        'board cannot have port 6006 for "tensorboard": python (pid 7) listens there',
        "free that port, choose another, or leave it out to have one chosen",
        taken={"tensorboard": "python (pid 7) listens there"},
    )


def test_a_range_of_ports_that_is_used_up(refused):
    refused(
        """
        exp = Experiment("rl", port_range=(7000, 7001))  # <-
        exp.new_process("a", ["x"]).binds("p", "q", "r")
        """,
        'a gets no port for "r": no port between 7000 and 7001 is free',
        "free some, or name more of them with port_range=(first, last)",
        taken={"r": "no port between 7000 and 7001 is free"},
    )


@pytest.mark.parametrize(
    ("name", "shown", "remedy"),
    [
        ("Replay.Server", "Replay.Server", 'use letters, digits, "-" and "_": "Replay-Server"'),
        ("", "", "a name needs at least one letter or digit"),
        ("a" * 64, "a" * 59 + "…", "names have at most 63 characters, this one has 64"),
        ("löß", "löß", 'use letters, digits, "-" and "_"'),
        ("a\nb", r"a\nb", 'use letters, digits, "-" and "_": "a-b"'),
        ("-", "-", 'use letters, digits, "-" and "_"'),
    ],
)
def test_illegal_service_names_are_reported_where_they_are_first_said(refused, name, shown, remedy):
    refused(
        f"""
        exp = Experiment("rl")
        exp.new_process("a", ["x"]).binds({name!r})  # <-
        exp.new_process("b", ["x"]).connects({name!r})
        """,
        f'a binds "{shown}"',
        remedy,
    )


@pytest.mark.parametrize("other", ["web_1", "Web-1", "WEB_1"])
@pytest.mark.parametrize("backend", ["tmux", "kubernetes"])
def test_names_that_differ_only_in_dashes_or_case(problems_of, request, other, backend):
    (problem,) = problems_of(
        f"""
        exp = Experiment("rl", image="i")
        exp.new_process("a", ["x"]).binds("web-1")
        exp.new_process("b", ["x"]).exposes("{other}")
        """,
        request.getfixturevalue(backend),
    )
    assert "web-1" in problem.what
    assert other in problem.what
    assert [place.line for place in problem.where] == [4, 5]
