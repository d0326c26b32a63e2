"""Killed runs, failed and lost processes: the next `up` completes, `delete` leaves nothing."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.conformance.backend import Backend
from tests.sandbox import wait_for

MANY = """
with Experiment() as e:
    for i in range(%d):
        e.new_process("p-%%d" %% i, command=["sleep", "3600"])
    probe(e, "server", "bind=alpha")
    probe(e, "client", "reach=alpha")
"""


# Prepended to a program: blocks the second half of its resources, so that the test can kill the engine.
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
def stack(backend: Backend, request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield a stack for this test, and check afterwards that `delete` leaves nothing."""
    name = "x" + str(abs(hash(request.node.name)) % 100000)
    try:
        yield name
        if any(each.endswith(f"/{name}") for each in backend.sandbox.stacks()):
            backend.delete(name)
        assert backend.leftovers(name) == []
    finally:
        backend.forget(name)


def start_up(backend: Backend, stack: str, alive: int) -> subprocess.Popen[str]:
    """Start an `up` of MANY and return midway: the second half of its numbered processes cannot start."""
    program = HELD % (backend.crowd // 2, backend.crowd) + MANY % backend.crowd
    process = backend.sandbox.start(backend.prepare(stack, program), start_new_session=True)
    wait_for(lambda: backend.requested_starts(stack) >= alive, 30, f"{alive} processes", pause=0.01)
    return process


def engine_of(process: subprocess.Popen[str]) -> psutil.Process:
    """Wait for the engine of a run."""

    def look() -> psutil.Process | None:
        children = psutil.Process(process.pid).children()
        return next((each for each in children if each.name() == "pulumi"), None)

    return wait_for(look, 10, "the engine runs")


def assert_converged(backend: Backend, stack: str, count: int) -> None:
    """Assert that each declared process runs exactly once, and that the command line says so."""
    living = backend.identities(stack)
    assert {path: who for path, who in living.items() if len(who) != 1} == {}
    statuses = backend.statuses(stack)
    assert {status["state"] for status in statuses.values()} == {"running"}
    assert set(living) == set(statuses)
    assert len(living) == count


@pytest.mark.parametrize(
    ("victim", "part"), [pytest.param("engine", 0.5, marks=pytest.mark.thorough), ("command line", 0.0)]
)
def test_the_next_up_completes_a_killed_one(backend: Backend, stack: str, victim: str, part: float) -> None:
    process = start_up(backend, stack, max(1, int(part * backend.crowd)))
    killed = engine_of(process) if victim == "engine" else psutil.Process(process.pid)
    killed.kill()
    process.communicate(timeout=20)
    wait_for(lambda: not backend.sandbox.engines(), 10, "the run has ended")
    backend.up(stack, MANY % backend.crowd)
    assert_converged(backend, stack, backend.crowd + 2)
    backend.speaks(stack, "client", "reached")


@pytest.mark.thorough
def test_up_of_a_changed_program_after_a_killed_up_runs_only_that(backend: Backend, stack: str) -> None:
    """Processes of the killed run that are no longer declared are ended."""
    process = start_up(backend, stack, backend.crowd // 2)
    engine_of(process).kill()
    process.communicate(timeout=20)
    backend.up(stack, MANY % 3)
    assert_converged(backend, stack, 3 + 2)


@pytest.mark.thorough
def test_delete_after_a_killed_up_leaves_nothing(backend: Backend, stack: str) -> None:
    process = start_up(backend, stack, backend.crowd // 2)
    engine_of(process).kill()
    process.communicate(timeout=20)
    backend.delete(stack)
    assert backend.leftovers(stack) == []


@pytest.mark.thorough
def test_the_next_delete_completes_a_killed_one(backend: Backend, stack: str) -> None:
    code = "trap : TERM HUP; while :; do sleep 1; done"
    stubborn = f'with Experiment() as e: e.new_process("a", command=["sh", "-c", "{code}"])'
    backend.up(stack, stubborn, grace="3")
    words = backend.prepare(stack, stubborn)
    process = backend.sandbox.start([words[0], "delete", *words[2:]])
    engine = engine_of(process)
    time.sleep(1)
    engine.kill()
    process.communicate(timeout=20)
    backend.delete(stack)
    assert backend.leftovers(stack) == []


TWO = """
with Experiment() as e:
    probe(e, "server", "bind=alpha")
    probe(e, "client", "reach=alpha")
    probe(e, "fails", "exit=3")
    probe(e, "done", "exit=0")
"""


def test_the_next_up_restarts_failed_and_lost_processes(backend: Backend, stack: str) -> None:
    backend.up(stack, TWO, fails=True)
    backend.becomes(stack, "done", "completed")
    backend.becomes(stack, "fails", "failed")
    before = backend.snapshot(stack)

    backend.lose(stack, "client")
    lost = backend.becomes(stack, "client", "lost")
    assert lost["why"]
    assert lost["ready"] is False
    assert backend.statuses(stack)["server"]["state"] == "running"
    plan = {each["path"]: each for each in backend.sandbox.symphony("plan", stack, "--json").json["changes"]}
    assert {path: each["kind"] for path, each in plan.items()} == {
        "server": "keep",
        "client": "restart",
        "fails": "restart",
        "done": "keep",
    }

    backend.up(stack, TWO, fails=True)
    after = backend.snapshot(stack)
    assert after.same(before) == {"server"}
    assert after.statuses["client"]["state"] == "running"
    assert after.statuses["done"] == before.statuses["done"]
    backend.becomes(stack, "fails", "failed")
    starts = 2 if backend.remembers_starts else 1
    assert backend.statuses(stack)["fails"]["restarts"] == 0, "it did not start again by itself"
    ends = [line["text"] for line in backend.lines(stack, "fails") if line["ended"]]
    assert set(ends) == {"ended: exit 3"}
    assert len(ends) >= starts
    assert set(backend.speaks(stack, "client", "reached", starts)) == {"alpha"}


@pytest.mark.thorough
def test_up_restores_an_experiment_removed_without_symphony(backend: Backend, stack: str) -> None:
    program = """
with Experiment() as e:
    probe(e, "server", "bind=alpha")
    probe(e.new_process_group("group"), "client", "reach=alpha")
"""
    backend.up(stack, program)
    before = backend.snapshot(stack)
    backend.vanish(stack)
    assert {status["state"] for status in backend.statuses(stack).values()} == {"lost"}
    backend.up(stack, program)
    backend.becomes(stack, "server", "running")
    assert set(backend.speaks(stack, "group/client", "reached")) == {"alpha"}
    after = backend.snapshot(stack)
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


@pytest.mark.thorough
def test_restart_policies_restart_or_keep_ended_processes(backend: Backend, stack: str) -> None:
    backend.up(stack, POLICIES, fails=True, patience="3")

    def restarted() -> bool:
        return all(backend.statuses(stack)[path]["restarts"] > 0 for path in ("on-failure", "always"))

    wait_for(restarted, 30 * backend.patience, "they are started again", pause=0.5)
    now = backend.statuses(stack)
    for path in ("never", "unsaid"):
        assert (now[path]["state"], now[path]["restarts"]) == ("failed", 0)
    assert (now["good"]["state"], now["good"]["restarts"]) == ("completed", 0)
    assert "exit 3" in (now["on-failure"]["last"] or now["on-failure"]["why"])


@pytest.mark.thorough
def test_a_killed_process_is_shown_as_failed_at_once(backend: Backend, stack: str) -> None:
    """The status names the signal; the log stays, and other processes keep running."""
    words = '"a", "say=hello"', '"b", "say=hello"', '"c"'
    backend.up(stack, "with Experiment() as e:\n" + "".join(f"    probe(e, {each})\n" for each in words))
    for path in ("a", "b"):
        backend.speaks(stack, path, "ready")
    before = backend.snapshot(stack)
    for path, number in (("a", signal.SIGKILL), ("b", signal.SIGTERM)):
        backend.kill(stack, path, number)
        assert number.name in backend.becomes(stack, path, "failed", seconds=5)["why"]
        assert backend.reports(stack, path, "said") == ["hello"]
    assert backend.snapshot(stack).identities["c"] == before.identities["c"]


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
    e.new_process("lost", command=["sleep", "3600"])
"""


@pytest.mark.thorough
def test_delete_ends_processes_that_resist_beside_a_lost_one(backend: Backend, stack: str) -> None:
    """Children that ignore SIGTERM, left their session or are stopped."""
    backend.up(stack, STUBBORN, grace="1")
    backend.speaks(stack, "stubborn", "ready")
    backend.lose(stack, "lost")
    backend.delete(stack)
    assert backend.leftovers(stack) == []
    assert stack not in backend.sandbox.symphony("ls").out
    backend.delete(stack, code=None)


@pytest.mark.thorough
def test_two_experiments_are_independent(backend: Backend, stack: str) -> None:
    program = 'with Experiment() as e:\n    probe(e, "a", "bind=alpha")\n    probe(e, "b", "reach=alpha")'
    other = f"{stack}-b"
    backend.up(stack, program)
    backend.up(other, program)
    addresses = {s: backend.speaks(s, "b", "services")[0]["SYMPH_ALPHA_ADDR"] for s in (stack, other)}
    assert len(set(addresses.values())) == 2
    before = backend.snapshot(stack)
    backend.delete(other)
    assert backend.leftovers(other) == []
    assert backend.snapshot(stack).same(before) == {"a", "b"}
