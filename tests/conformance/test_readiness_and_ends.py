"""Probes, `restart_with`, `primary` and `stop_after` behave the same on every backend."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.backend import Backend
from tests.conformance.conftest import BACKENDS
from tests.sandbox import wait_for

pytestmark = pytest.mark.parametrize("backend", BACKENDS, indirect=True, scope="module")
STACK = "ends"
SERVE = "python3 -m http.server $SYMPH_{0}_PORT --bind $SYMPH_{0}_BIND"


PROBES = f"""
with Experiment() as e:
    late = e.new_process("late", "sleep 2; {SERVE.format("LATE")}", binds="late")
    late.readiness_probe(tcp="late", period_seconds=1)
    page = e.new_process("page", "sleep 1; {SERVE.format("PAGE")}", binds="page")
    page.readiness_probe(http="/", period_seconds=1)
    file = e.new_process("file", "sleep 2; echo >/tmp/$SYMPH_PAGE_PORT; sleep 1000", connects="page")
    file.readiness_probe(exec=["sh", "-c", "[ -e /tmp/$SYMPH_PAGE_PORT ]"], period_seconds=1)
    line = e.new_process("line", "sleep 2; echo Listening on 1; sleep 1000")
    line.readiness_probe(log="Listening on [0-9]", period_seconds=1)
    never = e.new_process("never", "echo nothing; sleep 1000")
    never.readiness_probe(log="Listening on [0-9]", period_seconds=1)
    after = e.new_process("after", "sleep 1000", depends_on=[late, page, file, line])
    e.new_process("blocked", "sleep 1000").depends_on(never, timeout=12)
"""


def test_a_process_is_ready_when_its_probe_succeeds_and_then_dependents_start(
    backend: Backend, stack: str
) -> None:
    # The stack setting, not the factor: `up` stops waiting for `never` after 12 s.
    ran = backend.up(stack, PROBES, fails=True, patience="12")
    assert "never" in ran.out
    backend.becomes(stack, "after", "running", 40)
    assert "never" in backend.becomes(stack, "blocked", "blocked", 40)["why"]
    statuses = backend.statuses(stack)
    for path in ("late", "page", "file", "line"):
        status = statuses[path]
        assert (status["state"], status["ready"], status["restarts"]) == ("running", True, 0)
        assert status["since"] <= statuses["after"]["since"]
    never = statuses["never"]
    assert (never["state"], never["ready"], never["restarts"]) == ("running", False, 0)
    assert "Listening on [0-9]" in never["why"]


RESTARTS = """
with Experiment() as e:
    lives = "echo up; sleep 1000"
    web = e.new_process("web", lives, restart_policy="OnFailure")
    web.liveness_probe(exec=["sh", "-c", "false"], period_seconds=1, initial_delay_seconds=12)
    web.readiness_probe(log="up")
    follows = e.new_process("follows", "sleep 1000", restart_policy="OnFailure")
    follows.depends_on(web, restart_with=True)
    e.new_process("stays", "sleep 1000").depends_on(web)
"""


@pytest.mark.thorough
def test_a_failed_liveness_probe_restarts_the_process_and_its_restart_with_dependents(
    backend: Backend, stack: str
) -> None:
    backend.up(stack, RESTARTS)
    before = {path: backend.identities(stack)[path] for path in ("web", "follows", "stays")}
    # The supervisor that is started in its place must do the rest.
    backend.end_supervisor(stack)

    wait_for(
        lambda: backend.runs_again(stack, "follows", before),
        40 * backend.patience,
        "it restarts with the other",
        pause=0.3,
    )
    assert backend.identities(stack)["stays"] == before["stays"]
    assert backend.statuses(stack)["web"]["restarts"] > 0


ENDS = """
with Experiment(primary="learner") as e:
    e.new_process("learner", "sleep LEARNS; exit $CODE", env={"CODE": EXIT})
    replay = "trap 'echo told; exit' TERM; echo begins; while :; do sleep 0.1; done"
    e.new_process("replay", replay, termination_delay=12)
    e.new_process("agent", "sleep 1000 & sleep 1000")
"""
FAILS, COMPLETES = (ENDS.replace("LEARNS", "3").replace("EXIT", code) for code in ("3", "0"))


def test_other_processes_stop_with_the_primary_and_restart_with_it(backend: Backend, stack: str) -> None:
    backend.sandbox.config(stack, notify=backend.notify)
    backend.up(stack, FAILS, fails=True)
    backend.sandbox.symphony("wait", stack, "--timeout", "60s", code=3)

    def after_the_primary() -> dict[str, dict[str, Any]] | None:
        states = backend.statuses(stack)
        return states if states["agent"]["state"] == "stopped" else None

    states = wait_for(after_the_primary, 20 * backend.patience, "agent is stopped", pause=0.3)
    assert "learner" in states["agent"]["why"]
    assert states["replay"]["state"] == "running", "it has a delay"
    backend.becomes(stack, "replay", "stopped")
    assert "told" in backend.sandbox.symphony("logs", stack, "replay").out
    backend.up(stack, COMPLETES)
    backend.sandbox.symphony("wait", stack, "--timeout", "60s")
    backend.becomes(stack, "agent", "completed")
    backend.becomes(stack, "replay", "completed")
    ends = [f"notified {stack} failed 3", f"notified {stack} completed 0"]
    wait_for(lambda: backend.notified(stack) == ends, 10, "notify has run once at each end")
    # After completion, restarting the primary restarts the others.
    backend.up(stack, COMPLETES.replace("sleep 3", "sleep 1000"))
    for path in ("learner", "replay", "agent"):
        assert backend.becomes(stack, path, "running")["ready"]


CHAIN = """
with Experiment(primary="evaluate", termination_delay=1) as e:
    e.new_process("prepare", "exit CODE")
    e.new_process("train", "true").depends_on("prepare", condition="completed")
    e.new_process("evaluate", "true").depends_on("train", condition="completed")
    e.new_process("server", "sleep 1000")
"""


@pytest.mark.thorough
def test_the_cause_of_a_blocked_primary_is_told_after_the_end_and_all_go_on_once_it_is_mended(
    backend: Backend, stack: str
) -> None:
    backend.up(stack, CHAIN.replace("CODE", "3"), fails=True)
    assert "prepare failed" in backend.becomes(stack, "server", "stopped")["why"]
    statuses = backend.statuses(stack)
    assert {path: statuses[path]["state"] for path in ("train", "evaluate")} == {
        "train": "blocked",
        "evaluate": "blocked",
    }
    assert "prepare failed" in statuses["train"]["why"]
    assert "prepare failed" in backend.sandbox.symphony("why", stack, "train").out
    backend.up(stack, CHAIN.replace("CODE", "0"))
    backend.sandbox.symphony("wait", stack, "--timeout", "60s")
    backend.becomes(stack, "train", "completed")


LIMIT = """
with Experiment(stop_after="15s") as e:
    e.new_process("a", "sleep 1000")
    e.new_process("b", "true").depends_on("a", condition="completed")
"""


@pytest.mark.thorough
def test_stop_after_stops_all_processes_and_up_restarts_them(backend: Backend, stack: str) -> None:
    backend.up(stack, LIMIT)
    backend.sandbox.symphony("wait", stack, "--timeout", "60s", code=1)
    statuses = backend.statuses(stack)
    assert {status["state"] for status in statuses.values()} == {"stopped"}
    assert "(stop_after) is over" in statuses["a"]["why"]
    backend.up(stack, LIMIT)
    assert backend.becomes(stack, "a", "running")["ready"]
