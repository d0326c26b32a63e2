"""`symphony delete` asks first, removes everything, reports it, and can be interrupted."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from symphony.engine.state import locks
from symphony.engine.state.file_store import StackName
from symphony.operations import delete, stacks
from tests.sandbox import SYMPHONY, Sandbox, wait_for
from tests.terminal import terminal

PROGRAM = 'with Experiment() as e:\n    for n in "ab": e.new_process(n, command=["sleep", "3600"])'


ALONE = 'with Experiment() as e: e.new_process("a", command=["sleep", "3600"])'
PROTECTED = """
import pulumi
with Experiment() as e:
    e.new_process("a", command=["sleep", "3600"])
    e.new_process("b", command=["sleep", "3600"], opts=pulumi.ResourceOptions(protect={protect}))
"""


@pytest.mark.thorough
def test_delete_refuses_a_protected_process_before_it_ends_the_others(sandbox: Sandbox) -> None:
    sandbox.write(PROTECTED.format(protect=True))
    sandbox.symphony("up", "rl", "-y")
    refused = sandbox.symphony("delete", "rl", "-y", code=2)
    assert "b is protected" in refused.err
    assert len(sandbox.trees()) == 2
    sandbox.write(ALONE)
    assert "b is protected" in sandbox.symphony("up", "rl", "-y", code=2).err
    assert len(sandbox.trees()) == 2
    sandbox.write(PROTECTED.format(protect=False))
    sandbox.symphony("up", "rl", "-y")
    sandbox.symphony("delete", "rl", "-y")
    assert sandbox.trees() == {}


def test_delete_asks_removes_everything_and_works_without_the_project(
    sandbox: Sandbox, tmp_path: object
) -> None:
    sandbox.write(PROGRAM)
    sandbox.symphony("up", "rl", "-y")
    refused = sandbox.symphony("delete", "rl", code=2)
    assert "-y" in refused.err
    # With -y, only the full name is accepted.
    near = sandbox.symphony("delete", "r", "-y", code=2)
    assert near.err.splitlines() == [
        "symphony: no experiment is called r, and -y needs the full name."
        " To delete rl, run `symphony delete rl -y`."
    ]
    assert len(sandbox.trees()) == 2

    with terminal(sandbox, [str(SYMPHONY), "delete", "rl"]) as screen:
        question = screen.shows("[y/N]")
        assert "2 processes" in question
        screen.type("n", "Enter")
        assert screen.ends() == 1
        assert "Nothing was changed" in screen.screen()
    assert len(sandbox.trees()) == 2

    done = sandbox.symphony("d", "rl", "-y", cwd=tmp_path)
    assert "2 processes" in done.out
    assert sandbox.trees() == {}
    assert sandbox.servers() == []
    assert list((sandbox.home / "experiments").glob("*")) == []
    assert sandbox.symphony("ls", "--json").json == []


STUBBORN = """
PROGRAM = "trap 'echo asked' TERM HUP; echo deaf; while :; do sleep 1; done"
with Experiment() as e:
    for n in "ab":
        e.new_process(n, command=["sh", "-c", PROGRAM])
"""


@pytest.mark.thorough
def test_delete_rows_show_processes_that_ignore_sigterm(sandbox: Sandbox) -> None:
    """The rows follow the processes, although the engine already closed their windows."""
    sandbox.write(STUBBORN + '    e.new_process("good", command=["sleep", "3600"])')
    sandbox.config("rl", grace="3")
    sandbox.symphony("up", "rl", "-y")
    lines = [line.split(maxsplit=4) for line in sandbox.symphony("delete", "rl", "-y").out.splitlines()]
    rows = [(line[0], line[1], *line[4:]) for line in lines if line[0] in ("a", "b", "good")]
    assert rows[0] == ("good", "stopped")
    assert set(rows[1:3]) == {(n, "stopping", "still runs after SIGTERM; SIGKILL after 3 s") for n in "ab"}
    assert set(rows[3:]) == {(n, "stopped", "killed: SIGTERM did not end it in 3 s") for n in "ab"}


@pytest.mark.thorough
def test_batch_delete_runs_in_parallel_and_one_ctrl_c_stops_all(sandbox: Sandbox) -> None:
    sandbox.write(STUBBORN)
    for name in ("one", "two"):
        sandbox.config(name, grace="60")
        sandbox.symphony("up", name, "-y")
        # On a busy machine, SIGTERM might come before the shells have set their traps.
        wait_for(lambda name=name: sandbox.symphony("logs", name).out.count("deaf") == 2, 20, "both are deaf")
    process = sandbox.start([str(SYMPHONY), "delete-batch", "*", "-y"], start_new_session=True)
    locks = sandbox.home / "state" / ".pulumi" / "locks"
    wait_for(lambda: len(list(locks.rglob("*.json"))) == 2, 20, "both are being deleted")
    os.killpg(process.pid, signal.SIGINT)
    _, output = process.communicate(timeout=20)
    assert process.returncode == 130
    assert output.splitlines()[-1].startswith("symphony: delete was interrupted, 2 of 2"), output
    assert sandbox.engines() == []
    assert [each["name"] for each in sandbox.symphony("ls", "--json").json] == ["one", "two"]


@pytest.mark.thorough
def test_up_and_wait_say_that_another_command_deleted_what_they_wait_for(sandbox: Sandbox) -> None:
    sandbox.write(
        "from symphony import Probe\n"
        "with Experiment() as e:\n"
        '    e.new_process("a", command="sleep 86400", readiness_probe=Probe(exec=["false"]))'
    )
    sandbox.config("rl", grace="1", patience="60")
    up = sandbox.start([str(SYMPHONY), "up", "rl", "-y"])
    locks = sandbox.home / "state" / ".pulumi" / "locks"
    wait_for(lambda: sandbox.trees() and not list(locks.rglob("*.json")), 30, "up waits for the probe of a")
    waiting = sandbox.start([str(SYMPHONY), "wait", "rl"])
    time.sleep(1)
    sandbox.symphony("delete", "rl", "-y")
    for process in (up, waiting):
        output, error = process.communicate(timeout=20)
        assert process.returncode == 1, output
        # `wait` may look while `delete` still runs.
        assert re.match("symphony: rl (was deleted by another command|is being changed by)", error), error
        assert error.count("\n") == 1


@pytest.mark.thorough
def test_delete_orphans_lists_and_ends_processes_without_state(sandbox: Sandbox) -> None:
    """Other sessions on the same tmux server stay untouched."""
    sandbox.write(PROGRAM)
    sandbox.symphony("up", "rl", "-y")
    sandbox.symphony("up", "rl-2", "-y")
    mine = sandbox.tmux().new_session("mine", window_command="sleep 3600")
    (sandbox.home / "state" / ".pulumi" / "stacks" / "sandbox" / "rl.json").unlink()

    rows = {row["name"]: row for row in sandbox.symphony("ls", "--json").json}
    assert (rows["rl"]["state"], rows["rl"]["ready"]) == ("not in the state", 2)
    assert "symphony delete rl ends it" in rows["rl"]["hint"]
    assert rows["rl-2"]["state"] == "running"
    other_store = {"PULUMI_BACKEND_URL": f"file://{sandbox.home.parent / 'other'}"}
    assert sandbox.symphony("ls", "--json", env=other_store).json == [], "a store lists only its own"
    assert sandbox.symphony("delete", "rl", "-y", env=other_store, code=2).err

    assert "Deleted rl: stopped 2 processes" in sandbox.symphony("delete", "rl", "-y").out
    assert "SIGTERM" in sandbox.symphony("logs", "rl", "a", "--run", "1").out, "the run keeps the logs"
    assert set(sandbox.trees()) == {"rl-2/a", "rl-2/b"}
    assert [row["name"] for row in sandbox.symphony("ls", "--json").json] == ["rl-2"]
    assert {session.session_name for session in sandbox.tmux().sessions} == {"mine", "rl-2"}
    sandbox.symphony("delete", "rl-2", "-y")
    mine.kill()


@pytest.mark.thorough
def test_delete_interrupts_a_running_restart(sandbox: Sandbox) -> None:
    """The restart ignores SIGINT, as behind a shell's `&`."""
    program = 'with Experiment() as e:\n    e.new_process("a", command=["sleep", "3600"])'
    sandbox.write(program)
    sandbox.symphony("up", "rl", "-y")
    sandbox.write(f"import time; time.sleep(20)\n{program}")
    shell = ["sh", "-c", "trap '' INT; exec \"$0\" restart rl -y", str(SYMPHONY)]
    restart = sandbox.start(shell)
    folder = sandbox.home / "state" / ".pulumi" / "locks"
    wait_for(lambda: [*folder.rglob("*.json")], 60, "the restart has the lock")
    assert [row["name"] for row in sandbox.symphony("ls", "--json").json] == ["rl"]
    assert sandbox.symphony("delete", "rl", "-y").out.startswith("  a  stopped")
    out, err = restart.communicate(timeout=60)
    assert "urn:" not in f"{out}{err}"
    assert "restart of rl was ended by another command" in f"{err}"
    assert restart.returncode != 0
    assert sandbox.trees() == {}


def test_delete_retries_if_the_lock_was_released_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart ends between two looks at the lock: 2 of 20 deletions failed then."""
    errors = [locks.StackLocked("rl is being changed")]

    def run(*_: object, **__: object) -> Iterator[delete.Deleted]:
        if errors:
            raise errors.pop()
        yield delete.Deleted("rl", 1, 0, 0.1)

    stack = SimpleNamespace(name=StackName("p", "rl"))
    monkeypatch.setattr(delete, "_delete", run)
    monkeypatch.setattr(delete, "_interrupt_runs", lambda _: False)
    monkeypatch.setattr(stacks, "read", lambda _: stack)
    assert [each.stack for each in delete.delete(stack)] == ["rl"]  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue]
