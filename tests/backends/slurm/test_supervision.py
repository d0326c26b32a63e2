"""Readiness, probes, restarts and ends inside a Slurm job, decided by symphony.supervision."""

from __future__ import annotations

import pytest

from tests.backends.slurm.conftest import Lab
from tests.sandbox import wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]


def up(lab: Lab, program: str, code: int | None = 0) -> str:
    lab.sandbox.write(program)
    ran = lab.sandbox.symphony("up", "rl", "-y", timeout=120, code=code)
    return ran.out + ran.err


PRIMARY = """
with Experiment(primary="learner") as e:
    e.new_process("learner", "sleep SECONDS; exit CODE")
    e.new_process("replay", "exec sleep 1000")
    e.new_process("agent", "exec sleep 1000", termination_delay=1)
"""


def test_when_the_primary_ends_the_other_processes_and_the_job_end(lab: Lab) -> None:
    up(lab, PRIMARY.replace("SECONDS", "1").replace("CODE", "3"), code=None)
    assert lab.becomes("replay", "stopped")["why"].startswith("learner failed")
    (job,) = lab.jobs()
    # They start again with their primary, in the nodes that the job still has.
    up(lab, PRIMARY.replace("SECONDS", "5").replace("CODE", "0"))
    assert lab.becomes("agent", "running")["ready"]
    assert lab.jobs() == [job]
    assert "learner completed" in lab.becomes("agent", "completed")["why"]
    wait_for(lambda: not lab.jobs(), 20, "the job has ended")
    assert lab.sandbox.symphony("wait", "rl", code=0)
    # An edit finds no job any more.
    up(lab, PRIMARY.replace("SECONDS", "1000").replace("CODE", "0"))
    assert {status["state"] for status in lab.sandbox.processes("rl").values()} == {"running"}
    assert len(lab.jobs()) == 1


PROBED = """
with Experiment() as e:
    server = e.new_process("server", "sleep 2; exec python3 -u -m http.server $SYMPH_WEB_PORT", binds="web")
    server.readiness_probe(http="/")
    client = e.new_process("client", "exec sleep 1000", connects="web")
    client.depends_on(server, restart_with=True)
    worker = e.new_process("worker", "echo began; touch alive; exec sleep 1000", restart_policy="OnFailure")
    worker.liveness_probe(exec=["test", "-e", "alive"], period_seconds=1, failure_threshold=1)
    talker = e.new_process("talker", "sleep 1; echo Listening on 1; exec sleep 1000")
    talker.readiness_probe(log="Listening on .*")
"""


def test_probes_make_processes_ready_and_restart_them(lab: Lab) -> None:
    up(lab, PROBED)
    statuses = lab.sandbox.processes("rl")
    assert {path for path, status in statuses.items() if status["ready"]} == {*statuses}
    assert statuses["client"]["since"] - statuses["server"]["since"] > 1.5
    before = lab.sandbox.trees()
    (lab.sandbox.folder / "alive").unlink()
    wait_for(lambda: lab.sandbox.processes("rl")["worker"]["restarts"], 30, "the worker restarted", pause=0.5)
    assert "liveness probe failed" in lab.sandbox.symphony("logs", "rl", "worker").out
    lab.sandbox.symphony("restart", "rl", "server", "-y", timeout=60)
    wait_for(
        lambda: lab.sandbox.trees().get("rl/client", before["rl/client"]) != before["rl/client"], 30, "it too"
    )
    assert lab.sandbox.trees()["rl/talker"] == before["rl/talker"]


def test_stop_after_ends_the_processes_and_the_job(lab: Lab) -> None:
    up(lab, 'with Experiment(stop_after="4s") as e: e.new_process("a", "exec sleep 1000")')
    assert "4 s are over" in lab.becomes("a", "stopped")["why"]
    wait_for(lambda: not lab.jobs(), 20, "the job has ended")
    assert "starts it again" in lab.sandbox.symphony("why", "rl", "a").out
