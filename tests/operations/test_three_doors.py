"""Three doors, one stack: `symphony up`, plain `pulumi`, a plain script; what one makes the others see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import Desk, desk_in

PROGRAM = """
with Experiment("rl") as e:
    e.new_process("server", command=["sleep", "3600"]).binds("greetings")
    e.new_process("guest", command=["sleep", "%s"]).connects("greetings")
"""
SCRIPT = """
import sys
from symphony import Cluster
cluster = Cluster.new("tmux")
e = cluster.new_experiment("rl")
e.new_process("server", command=["sleep", "3600"]).binds("greetings")
e.new_process("guest", command=["sleep", "%s"]).connects("greetings")
"""
LAUNCH = SCRIPT + "cluster.launch(e, force=True)\n"
BOTH = {"rl/server", "rl/guest"}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_in(tmp_path) as made:
        yield made


def test_made_by_symphony(desk: Desk) -> None:
    """Seen and changed by plain pulumi, seen and changed by a script, deleted by plain pulumi."""
    desk.write(PROGRAM % 1001)
    desk.symphony("up", "rl", "-y")
    made = desk.trees()
    assert set(made) == BOTH

    tree = desk.pulumi("stack", "--stack=rl").out
    for word in ("symphony:index:Experiment", "symphony:index:Process", "server", "guest"):
        assert word in tree
    refreshed = desk.pulumi("refresh", "--stack=rl", "--yes", "--skip-preview").out
    # The stack, the experiment, its session, and two processes with a window each.
    assert "7 unchanged" in " ".join(refreshed.split())
    preview = desk.pulumi("preview", "--stack=rl", "--diff", "--expect-no-changes")
    assert preview.code == 0
    desk.pulumi("up", "--stack=rl", "--yes", "--skip-preview", "--expect-no-changes")
    assert desk.trees() == made

    desk.write(PROGRAM % 1002)
    desk.pulumi("up", "--stack=rl", "--yes", "--skip-preview")
    changed = desk.trees()
    assert changed["rl/server"] == made["rl/server"]
    assert changed["rl/guest"] != made["rl/guest"]

    described = desk.python(
        SCRIPT % 1 + "print(cluster.list_experiments(), cluster.describe_experiment('rl'))"
    )
    assert "['rl']" in described.out
    assert "running" in described.out
    desk.python(LAUNCH % 1003)
    third = desk.trees()
    assert third["rl/server"] == made["rl/server"]
    assert third["rl/guest"] != changed["rl/guest"]

    desk.pulumi("destroy", "--stack=rl", "--yes", "--skip-preview")
    assert desk.trees() == {}
    assert desk.servers() == []
    assert desk.symphony("ls", "--json").json == []


@pytest.mark.thorough
def test_made_by_pulumi(desk: Desk) -> None:
    """Seen, changed and deleted by symphony."""
    desk.write(PROGRAM % 1001)
    desk.pulumi("stack", "init", "rl")
    desk.pulumi("up", "--stack=rl", "--yes", "--skip-preview")
    made = desk.trees()
    assert set(made) == BOTH
    assert [row["name"] for row in desk.symphony("ls", "--json").json] == ["rl"]
    assert desk.processes("rl")["guest"]["state"] == "running"
    desk.write(PROGRAM % 1002)
    desk.symphony("up", "rl", "-y")
    assert desk.trees()["rl/server"] == made["rl/server"]
    desk.symphony("delete", "rl", "-y")
    assert desk.trees() == {}


def test_made_by_a_script(desk: Desk) -> None:
    """In a folder without any project: seen and changed and deleted by the two others."""
    (desk.folder / "Pulumi.yaml").unlink()
    desk.python(SCRIPT % 1001 + "cluster.launch(e)")
    made = desk.trees()
    assert set(made) == BOTH
    (row,) = desk.symphony("ls", "--json").json
    assert (row["name"], row["project"], row["ready"]) == ("rl", "symphony", 2)
    assert desk.processes("rl")["server"]["state"] == "running"
    assert "symphony:index:Process" in desk.pulumi("stack", "--stack=organization/symphony/rl").out

    refused = desk.python(
        SCRIPT % 1001 + "from symphony.errors import UserError\n"
        "try: cluster.launch(e)\nexcept UserError as error: print('refused:', error)"
    )
    assert "refused: experiment rl exists" in refused.out

    (desk.folder / "Pulumi.yaml").write_text("name: symphony\nruntime: python\n")
    desk.write(PROGRAM % 1002)
    desk.symphony("up", "rl", "-y")
    changed = desk.trees()
    assert changed["rl/server"] == made["rl/server"]
    assert changed["rl/guest"] != made["rl/guest"]
    desk.symphony("delete", "rl", "-y")
    assert desk.trees() == {}
    assert desk.servers() == []


@pytest.mark.thorough
def test_made_by_a_script_changed_by_pulumi(desk: Desk) -> None:
    """In the project whose folder the script runs in; the script sees what became of it."""
    desk.python(SCRIPT % 1001 + "cluster.launch(e)")
    made = desk.trees()
    assert set(made) == BOTH
    desk.write(PROGRAM % 1002)
    desk.pulumi("up", "--stack=rl", "--yes", "--skip-preview")
    changed = desk.trees()
    assert changed["rl/server"] == made["rl/server"]
    assert changed["rl/guest"] != made["rl/guest"]
    desk.pulumi("up", "--stack=rl", "--yes", "--skip-preview", "--expect-no-changes")
    assert desk.trees() == changed
    told = desk.python(SCRIPT % 1 + "print(cluster.describe_process('rl', 'guest'))").out
    assert "'Ready': 1" in told
    desk.python(SCRIPT % 1 + "cluster.delete('rl')")
    assert desk.trees() == {}


@pytest.mark.thorough
def test_the_script_deletes_what_symphony_made(desk: Desk) -> None:
    desk.write(PROGRAM % 1001)
    desk.symphony("up", "rl", "-y")
    desk.python(SCRIPT % 1 + "cluster.delete('rl', dry_run=True)")
    assert set(desk.trees()) == BOTH
    desk.python(SCRIPT % 1 + "cluster.delete('rl')")
    assert desk.trees() == {}


def test_a_project_of_its_own_with_other_resources(desk: Desk) -> None:
    """Any Pulumi Python project will do; its stack is made when it is missing, its outputs stay its own."""
    desk.write(
        "import pulumi\n"
        + PROGRAM % 1001
        + "pulumi.export('where', e.addresses['greetings'])\npulumi.export('session', e.session)"
    )
    assert desk.stacks() == set()
    desk.symphony("up", "rl.long-run", "-y")
    assert desk.stacks() == {"desk/rl.long-run"}
    outputs = desk.pulumi("stack", "output", "--stack=rl.long-run", "--json").json
    assert outputs["session"] == "rl-long-run"
    assert outputs["where"].startswith("127.0.0.1:")
    assert set(desk.trees()) == {"rl.long-run/server", "rl.long-run/guest"}
