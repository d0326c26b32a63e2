"""Placement of processes on nodes: groups together, even loads, running processes keep their node."""

from __future__ import annotations

from symphony_slurm.folder import Share
from symphony_slurm.placement import Nodes, node_needs


def test_processes_are_spread_evenly_and_a_group_shares_a_node() -> None:
    shares = {f"p{i}": Share() for i in range(6)} | {f"g/{i}": Share(group="g") for i in range(2)}
    nodes = Nodes([["n1", "n2"]], hosts={})
    nodes.place(shares)
    assert nodes.node_of("g/0") == nodes.node_of("g/1")
    assert sorted(nodes.node_of(path) for path in shares) == ["n1"] * 4 + ["n2"] * 4


def test_a_gpu_process_gets_a_node_of_its_own_if_possible() -> None:
    shares = {"learner": Share(gpus=1, cpus=4), "a": Share(cpus=2), "b": Share(cpus=2)}
    nodes = Nodes([["n1", "n2"]], hosts={})
    nodes.place(shares)
    assert nodes.node_of("learner") not in (nodes.node_of("a"), nodes.node_of("b"))
    assert node_needs(shares, 2) == (4, 0, {"gpu": 1})


def test_processes_keep_their_node_when_others_are_added_or_removed() -> None:
    nodes = Nodes([["n1", "n2", "n3"]], hosts={})
    nodes.place({"a": Share(), "b": Share(), "c": Share()})
    before = {path: nodes.node_of(path) for path in "ac"}
    nodes.place({"a": Share(), "c": Share(), "d": Share(cpus=8)})
    assert {path: nodes.node_of(path) for path in "ac"} == before
    assert nodes.node_of("d") not in before.values()
    assert nodes.node_of("b") == ""


def test_processes_and_their_groups_stay_on_nodes_they_already_have() -> None:
    nodes = Nodes([["n1", "n2"]], hosts={}, placed={"b": "n1", "g/0": "n2", "gone": "n2"})
    nodes.place({"a": Share(), "b": Share(), "g/0": Share(group="g"), "g/1": Share(group="g")})
    assert {path: nodes.node_of(path) for path in ("a", "b", "g/0", "g/1")} == {
        "a": "n1",
        "b": "n1",
        "g/0": "n2",
        "g/1": "n2",
    }


def test_processes_get_the_nodes_of_their_component_and_move_with_their_partition() -> None:
    nodes = Nodes([["n1", "n2"], ["n3"]], hosts={})
    actors = {f"a{n}": Share(partition="cpu") for n in range(4)}
    nodes.place({"learner": Share(partition="gpu"), **actors}, ("cpu", "gpu"))
    assert nodes.node_of("learner") == "n3"
    assert sorted(nodes.node_of(path) for path in actors) == ["n1", "n1", "n2", "n2"]
    nodes.place({**actors, "a0": Share(partition="gpu")}, ("cpu", "gpu"))
    assert nodes.node_of("a0") == "n3"
