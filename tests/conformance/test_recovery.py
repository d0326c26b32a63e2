"""Runs that are killed, processes that die or are lost: the next `up` finishes, `delete` leaves nothing."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.conformance.world import World
from tests.desk import wait_for

MANY = """
with Experiment() as e:
    for i in range(%d):
        e.new_process("p-%%d" %% i, command=["sleep", "3600"])
    probe(e, "server", "bind=alpha")
    probe(e, "client", "reach=alpha")
"""


# Before a program: its later half is not made as long as the engine lives, so that no test comes too late.
HELD = """
import asyncio, pulumi
def hold(args):
    if args.name not in {f"p-{i}" for i in range(%d, %d)}:
        return None
    never = pulumi.Output.from_input(asyncio.sleep(3600, []))
    return pulumi.ResourceTransformationResult(
        args.props, pulumi.ResourceOptions.merge(args.opts, pulumi.ResourceOptions(depends_on=never))
    )
pulumi.runtime.register_stack_transformation(hold)
"""


@pytest.fixture
def stack(world: World, request: pytest.FixtureRequest) -> Iterator[str]:
    """A stack of this test's own; whatever became of it, `delete` leaves nothing."""
    name = "x" + str(abs(hash(request.node.name)) % 100000)
    try:
        yield name
        if any(each.endswith(f"/{name}") for each in world.desk.stacks()):
            world.delete(name)
        assert world.leftovers(name) == []
    finally:
        world.forget(name)


def begun(world: World, stack: str, alive: int) -> subprocess.Popen[str]:
    """An `up` of MANY in its middle: so many processes live, at most half of them, and the others cannot."""
    program = HELD % (world.crowd // 2, world.crowd) + MANY % world.crowd
    process = world.desk.start(world.prepare(stack, program), start_new_session=True)
    wait_for(lambda: world.begun(stack) >= alive, 30, f"{alive} processes", pause=0.01)
    return process


def engine_of(process: subprocess.Popen[str]) -> psutil.Process:
    """The engine of a run, which may still be starting."""

    def look() -> psutil.Process | None:
        children = psutil.Process(process.pid).children()
        return next((each for each in children if each.name() == "pulumi"), None)

    return wait_for(look, 10, "the engine runs")


def converged(world: World, stack: str, count: int) -> None:
    """So many processes are declared; each lives exactly once, and the command line says so."""
    living = world.identities(stack)
    assert {path: who for path, who in living.items() if len(who) != 1} == {}
    statuses = world.statuses(stack)
    assert {status["state"] for status in statuses.values()} == {"running"}
    assert set(living) == set(statuses)
    assert len(living) == count


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("victim", "part"),
    [
        pytest.param("engine", 0.0, marks=SLOW),
        pytest.param("engine", 0.5, marks=pytest.mark.thorough),
        ("command line", 0.0),
        pytest.param("command line", 0.5, marks=SLOW),
    ],
)
def test_after_a_killed_run_the_next_one_finishes(world: World, stack: str, victim: str, part: float) -> None:
    process = begun(world, stack, max(1, int(part * world.crowd)))
    killed = engine_of(process) if victim == "engine" else psutil.Process(process.pid)
    killed.kill()
    process.communicate(timeout=20)
    wait_for(lambda: not world.desk.engines(), 10, "the run has ended")
    world.up(stack, MANY % world.crowd)
    converged(world, stack, world.crowd + 2)
    world.speaks(stack, "client", "reached")


@pytest.mark.thorough
def test_after_a_killed_run_a_changed_program_is_what_runs(world: World, stack: str) -> None:
    """What the killed run started and the program does not declare any more is gone."""
    process = begun(world, stack, world.crowd // 2)
    engine_of(process).kill()
    process.communicate(timeout=20)
    world.up(stack, MANY % 3)
    converged(world, stack, 3 + 2)


def test_after_a_killed_run_delete_leaves_nothing(world: World, stack: str) -> None:
    process = begun(world, stack, world.crowd // 2)
    engine_of(process).kill()
    process.communicate(timeout=20)
    world.delete(stack)
    assert world.leftovers(stack) == []


@pytest.mark.thorough
def test_after_a_killed_delete_the_next_one_finishes(world: World, stack: str) -> None:
    code = "trap : TERM HUP; while :; do sleep 1; done"
    stubborn = f'with Experiment() as e: e.new_process("a", command=["sh", "-c", "{code}"])'
    world.up(stack, stubborn, grace="3")
    words = world.prepare(stack, stubborn)
    process = world.desk.start([words[0], "delete", *words[2:]])
    engine = engine_of(process)
    time.sleep(1)
    engine.kill()
    process.communicate(timeout=20)
    world.delete(stack)
    assert world.leftovers(stack) == []


TWO = """
with Experiment() as e:
    probe(e, "server", "bind=alpha")
    probe(e, "client", "reach=alpha")
    probe(e, "fails", "exit=3")
    probe(e, "done", "exit=0")
"""


def test_failed_and_lost_processes_come_back_with_the_next_up(world: World, stack: str) -> None:
    world.up(stack, TWO, fails=True)
    world.becomes(stack, "done", "completed")
    world.becomes(stack, "fails", "failed")
    before = world.snapshot(stack)

    world.lose(stack, "client")
    lost = world.becomes(stack, "client", "lost")
    assert lost["why"]
    assert lost["ready"] is False
    assert world.statuses(stack)["server"]["state"] == "running"
    plan = {each["path"]: each for each in world.desk.symphony("plan", stack, "--json").json["changes"]}
    assert {path: each["kind"] for path, each in plan.items()} == {
        "server": "keep",
        "client": "restart",
        "fails": "restart",
        "done": "keep",
    }

    world.up(stack, TWO, fails=True)
    after = world.snapshot(stack)
    assert after.same(before) == {"server"}
    assert after.statuses["client"]["state"] == "running"
    assert after.statuses["done"] == before.statuses["done"]
    world.becomes(stack, "fails", "failed")
    starts = 2 if world.remembers_starts else 1
    assert world.statuses(stack)["fails"]["restarts"] == starts - 1
    ends = [line["text"] for line in world.lines(stack, "fails") if line["ended"]]
    assert set(ends) == {"ended: exit 3"}
    assert len(ends) >= starts
    assert set(world.speaks(stack, "client", "reached", starts)) == {"alpha"}


@pytest.mark.thorough
def test_an_experiment_that_somebody_took_away_comes_back_whole(world: World, stack: str) -> None:
    program = """
with Experiment() as e:
    probe(e, "server", "bind=alpha")
    probe(e.new_process_group("group"), "client", "reach=alpha")
"""
    world.up(stack, program)
    before = world.snapshot(stack)
    world.vanish(stack)
    assert {status["state"] for status in world.statuses(stack).values()} == {"lost"}
    world.up(stack, program)
    world.becomes(stack, "server", "running")
    assert set(world.speaks(stack, "group/client", "reached")) == {"alpha"}
    after = world.snapshot(stack)
    assert after.same(before) == set()
    assert set(after.identities) == set(before.identities)


POLICIES = """
with Experiment() as e:
    e.new_process("never", command=["sh", "-c", "exit 3"]).restart_policy("Never")
    e.new_process("unsaid", command=["sh", "-c", "exit 3"])
    e.new_process("on-failure", command=["sh", "-c", "sleep 1; exit 3"]).restart_policy("OnFailure")
    e.new_process("good", command=["true"]).restart_policy("OnFailure")
    e.new_process("always", command=["sh", "-c", "sleep 1"]).restart_policy("Always")
"""


def test_restart_policies(world: World, stack: str) -> None:
    world.up(stack, POLICIES, fails=True, patience="3")

    def restarted() -> bool:
        return all(world.statuses(stack)[path]["restarts"] > 0 for path in ("on-failure", "always"))

    wait_for(restarted, 30 * world.patience, "they are started again", pause=0.5)
    now = world.statuses(stack)
    for path in ("never", "unsaid"):
        assert (now[path]["state"], now[path]["restarts"]) == ("failed", 0)
    assert (now["good"]["state"], now["good"]["restarts"]) == ("completed", 0)
    assert "exit 3" in (now["on-failure"]["last"] or now["on-failure"]["why"])


def test_a_killed_process_is_shown_at_once(world: World, stack: str) -> None:
    """With its signal; its log stays, the others go on."""
    words = '"a", "say=hello"', '"b", "say=hello"', '"c"'
    world.up(stack, "with Experiment() as e:\n" + "".join(f"    probe(e, {each})\n" for each in words))
    for path in ("a", "b"):
        world.speaks(stack, path, "ready")
    before = world.snapshot(stack)
    for path, number in (("a", signal.SIGKILL), ("b", signal.SIGTERM)):
        world.kill(stack, path, number)
        assert number.name in world.becomes(stack, path, "failed", seconds=5)["why"]
        assert world.told(stack, path, "said") == ["hello"]
    assert world.snapshot(stack).identities["c"] == before.identities["c"]


STUBBORN = """
import sys
code = '''
import os, signal, time
for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(3600)
    time.sleep(3600)
print("ready 1", flush=True)
time.sleep(3600)
'''
with Experiment() as e:
    e.new_process("stubborn", command=["python3", "-u", "-c", code])
    e.new_process("stopped", command=["sh", "-c", "kill -STOP $$"])
    e.new_process("ends", command=["true"])
"""


def test_delete_leaves_nothing_of_the_stubborn(world: World, stack: str) -> None:
    """Children that ignore every polite signal, left their session or are stopped go too."""
    world.up(stack, STUBBORN, grace="1")
    world.speaks(stack, "stubborn", "ready")
    world.delete(stack)
    assert world.leftovers(stack) == []
    assert stack not in world.desk.symphony("ls").out


@pytest.mark.thorough
def test_delete_of_what_is_gone_succeeds(world: World, stack: str) -> None:
    world.up(stack, 'with Experiment() as e: probe(e, "a")')
    world.lose(stack, "a")
    world.delete(stack)
    world.delete(stack, code=None)


@pytest.mark.thorough
def test_two_experiments_do_not_see_each_other(world: World, stack: str) -> None:
    program = 'with Experiment() as e:\n    probe(e, "a", "bind=alpha")\n    probe(e, "b", "reach=alpha")'
    other = f"{stack}-b"
    world.up(stack, program)
    world.up(other, program)
    addresses = {s: world.speaks(s, "b", "services")[0]["SYMPH_ALPHA_ADDR"] for s in (stack, other)}
    assert len(set(addresses.values())) == 2
    before = world.snapshot(stack)
    world.delete(other)
    assert world.leftovers(other) == []
    assert world.snapshot(stack).same(before) == {"a", "b"}
