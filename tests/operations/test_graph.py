"""The graph of an experiment: folded nodes, text, mermaid and JSON, pictures, and `symphony graph`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from symphony.backends.observe import ProcessStatus
from symphony.cli import graph as cli_graph
from symphony.errors import UserError
from symphony.operations import graph
from symphony.plan.names import RENDEZVOUS
from tests.documents import text
from tests.sandbox import Sandbox


def process(path: str, **more: Any) -> dict[str, Any]:
    return {"path": path, **more}


def service(name: str, path: str, port: int = 7001, exposed: bool = False) -> dict[str, Any]:
    return {"name": name, "path": path, "port": port, "exposed": exposed}


PROCESSES = [
    process("learner", binds=["replay"], waits_for=[{"path": "prepare", "condition": "completed"}]),
    process("prepare"),
    *(process(f"agents/{number}", connects=["replay"]) for number in range(12)),
    process("agents/judge", connects=["replay"]),
]
RL = graph.build("rl", "tmux", PROCESSES, [service("replay", "learner")])


def test_numbered_processes_are_folded_into_one_node() -> None:
    assert [node.path for node in RL.nodes] == ["learner", "prepare", "agents/0..11", "agents/judge"]
    assert len(RL.nodes[2].paths) == 12
    (replay,) = RL.services
    assert (RL.nodes[replay.binds].path, [RL.nodes[i].path for i in replay.connects]) == (
        "learner",
        ["agents/0..11", "agents/judge"],
    )
    (order,) = RL.dependencies
    assert (RL.nodes[order.waits].name, RL.nodes[order.on].name, order.condition) == (
        "learner",
        "prepare",
        "completed",
    )


def test_the_graph_in_the_docs_is_up_to_date() -> None:
    shown = "\n".join(f"    {line}" for line in cli_graph._lines(RL))
    assert shown in text("docs/see.md")


def test_a_service_without_known_port_is_shown_without_it() -> None:
    (replay,) = graph.build("rl", "slurm", PROCESSES, [service("replay", "learner", port=0)]).services
    assert (replay.label, RL.services[0].label) == ("replay", "replay:7001")


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["pool-0/w-0", "pool-0/w-1", "pool-1/w-2"], ["pool-0..1/w-0..2"]),
        (["a-1", "a-3"], ["a-*"]),
        (["a-08", "a-09", "a-10"], ["a-08..10"]),
        (["a", "a-1", "b-1"], ["a", "a-1", "b-1"]),
        ([], []),
    ],
)
def test_names_of_folded_nodes(paths: list[str], names: list[str]) -> None:
    assert [node.path for node in graph.build("x", "tmux", map(process, paths), ()).nodes] == names


def test_numbered_services_are_folded_with_their_processes() -> None:
    shards = [process(f"shard-{i}", binds=[f"part-{i}"]) for i in range(3)]
    made = graph.build(
        "x",
        "tmux",
        [*shards, process("all", connects=["part-0", "part-1", "part-2"])],
        [service(f"part-{i}", f"shard-{i}", 7000 + i) for i in range(3)],
    )
    assert [node.name for node in made.nodes] == ["all", "shard-0..2"]
    assert {each.binds for each in made.services} == {1}


def test_equal_workers_are_folded_into_one_node() -> None:
    equal = {"service_env": {RENDEZVOUS: "SYMPH_TRAIN"}}
    first = process("train-0", binds=["train"], **equal)
    others = [process(f"train-{rank}", connects=["train"], **equal) for rank in (1, 2)]
    made = graph.build("x", "tmux", [first, *others, process("train-9")], [service("train", "train-0")])
    assert [node.path for node in made.nodes] == ["train-0..2", "train-9"]


@pytest.mark.parametrize(
    ("states", "words", "health"),
    [
        (["running", "running"], "running", "well"),
        (["running", "waiting"], "1 of 2 ready", "waiting"),
        (["running", "failed"], "1 of 2 ready", "bad"),
        (["completed", "completed"], "completed", "done"),
        (["running"], "1 of 2 ready", "waiting"),
    ],
)
def test_state_and_health_of_a_folded_node(states: list[Any], words: str, health: str) -> None:
    statuses = {
        f"a-{i}": ProcessStatus(f"a-{i}", each, ready=each == "running") for i, each in enumerate(states)
    }
    declared = [process("a-0"), process("a-1")]
    (node,) = graph.build("x", "tmux", declared, (), statuses).nodes
    assert (node.state, node.health) == (words, health)


def test_mermaid_has_edges_for_services_and_dependencies() -> None:
    lines = graph.mermaid(RL).splitlines()
    assert lines[0] == "flowchart LR"
    assert '  p2 -- "replay:7001" --> p0' in lines
    assert '  p0 -. "after (completed)" .-> p1' in lines
    assert [line for line in lines if "subgraph" in line] == ['  subgraph g2["agents"]']


def test_svg_contains_every_name_and_is_valid() -> None:
    root = ElementTree.fromstring(graph.svg(RL))
    words = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"rl", "learner", "0..11", "judge", "agents", "replay:7001", "after (completed)"} <= set(words)
    ElementTree.fromstring(graph.svg(graph.build("<&>", "tmux", (), ())))


def test_pictures_are_drawn_with_and_without_graphviz(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert graph.picture(RL, "svg").startswith(b"<svg")
    assert graph.picture(RL, "png").startswith(b"\x89PNG")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "resvg_py", None)
        with pytest.raises(UserError) as refused:
            graph.picture(RL, "png")
    assert "symphony-launch[graph]" in refused.value.remedy
    program = tmp_path / "dot"
    program.write_text('#!/bin/sh\n[ "$1" = -Tpng ] || exit 3\n/bin/cat\n')
    program.chmod(0o755)
    assert graph.picture(RL, "png").startswith(b"digraph {")
    with pytest.raises(UserError, match="failed"):
        graph.picture(RL, "svg")


@pytest.mark.thorough
def test_graph_shows_the_plan_and_later_live_states(sandbox: Sandbox) -> None:
    sandbox.write(
        "with Experiment() as e:\n"
        ' e.new_process("server", ["python3 -m http.server $SYMPH_S_PORT --bind 127.0.0.1"], binds=["s"])\n'
        ' e.new_process("bad", command=["false"])\n'
        " for i in range(3):\n"
        '  e.new_process(f"c-{i}", command=["sleep", "99"], connects=["s"])'
    )
    planned = sandbox.symphony("graph", "rl").out
    assert "c-0..2" in planned
    assert "running" not in planned
    sandbox.symphony("up", "rl", "-y", code=1)
    shown = sandbox.symphony("graph", "rl", "--json").json
    assert {node["name"]: node["health"] for node in shown["nodes"]} == {
        "server": "well",
        "bad": "bad",
        "c-0..2": "well",
    }
    words = sandbox.symphony("graph").out.split()
    assert words[words.index("connects") + 2 :][:2] == ["->", "server"]
    assert "running" not in sandbox.symphony("graph", "rl", "--plan").out
    sandbox.symphony("graph", "rl", "--svg", "rl.svg")
    assert "#fbdcdc" in (sandbox.folder / "rl.svg").read_text(), "what failed is red"
    assert sandbox.symphony("graph", "rl", "--svg", "no/rl.svg", code=2).err.count("\n") == 1
    assert "there is no experiment" in sandbox.symphony("graph", "nope", code=2, cwd=sandbox.home).err
    sandbox.symphony("delete", "rl", "-y")
