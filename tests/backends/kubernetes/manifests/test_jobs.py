"""`symphony:controller: Job` on the real cluster: the lifecycle of Jobs, their failures and retries."""

from __future__ import annotations

import pytest

from tests.backends.kubernetes.diagnosis.test_why import steps
from tests.backends.kubernetes.test_runs import PAIR, Live, becomes, up
from tests.sandbox import SYMPHONY, Sandbox, wait_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.thorough, pytest.mark.timeout(300)]


@pytest.fixture
def jobs(sandbox: Sandbox, stack: str) -> str:
    """A stack whose pods are made by Jobs."""
    sandbox.config(stack, controller="Job")
    return stack


def pods(live: Live, namespace: str) -> dict[str, str]:
    """Return the name of a pod in the plan -> its uid, without pods that are being deleted."""
    every = [each["metadata"] for each in live("pods", namespace)]
    return {each["labels"]["symphony/pod"]: each["uid"] for each in every if "deletionTimestamp" not in each}


def test_a_job_has_the_lifecycle_of_a_plain_pod(sandbox: Sandbox, jobs: str, live: Live) -> None:
    """Logs, exec, edits, `pulumi refresh` and delete work as with a plain pod."""
    up(sandbox, jobs, PAIR, code=0)
    assert {each["metadata"]["name"] for each in live("jobs", jobs)} == {"server", "pool"}
    before = pods(live, jobs)
    sandbox.pulumi("refresh", "--stack", jobs, "--yes", "--skip-preview")
    for _ in range(2):
        assert "Nothing changes" in up(sandbox, jobs, PAIR, code=0)
        assert pods(live, jobs) == before

    edited = PAIR.replace(
        'f"w{i}", command="sleep", args=["1000"]', 'f"w{i}", command="sleep", args=["1001"]'
    )
    assert "2 to restart" in up(sandbox, jobs, edited, code=0)
    after = pods(live, jobs)
    assert [name for name in before if before[name] != after[name]] == ["pool"]

    assert f"SYMPH_ALPHA_HOST=alpha.{jobs}.svc" in sandbox.symphony("logs", jobs, "server").out
    assert sandbox.symphony("exec", jobs, "server", "--", "hostname").out.startswith("server-")
    result = steps(sandbox, jobs, "pool/w0")
    assert list(result)[-1] == "ready"
    assert result["created"]["what"].startswith("pod pool-")
    sandbox.symphony("delete", jobs, "-y", timeout=120)
    assert live("pods", jobs) == live("jobs", jobs) == []


def test_a_failed_job_stays_failed_until_the_next_up_and_a_job_with_retries_runs_again(
    sandbox: Sandbox, jobs: str, live: Live
) -> None:
    program = """
with Experiment("e") as e:
    e.new_process("once", command="sh", args=["-c", "echo no; exit 3"])
    e.new_process("again", command="sh", args=["-c", "echo try; exit 3"], restart_policy="OnFailure")
"""
    up(sandbox, jobs, program)
    assert becomes(sandbox, jobs, "once", "failed")["why"] == "exit 3: no"
    wait_for(lambda: len(live("pods", jobs)) > 2, 60, "a second try of one, and none of the other")
    assert sandbox.processes(jobs)["again"]["state"] == "waiting"
    tries = ("logs", jobs, "again")
    wait_for(lambda: sandbox.symphony(*tries).out.splitlines().count("try") > 1, 20, "both can be read")
    before = pods(live, jobs)
    # `up` may see the process running just before it fails.
    up(sandbox, jobs, program)
    assert pods(live, jobs)["once"] != before["once"]


def test_switching_a_stack_between_pods_and_jobs_never_runs_two_pods(
    sandbox: Sandbox, stack: str, live: Live
) -> None:
    program = 'with Experiment("e") as e: e.new_process("a", command="sleep", args=["999"])'
    up(sandbox, stack, program, code=0)
    for controller in ("Job", "Pod"):
        sandbox.config(stack, controller=controller)
        sandbox.write(program)
        process = sandbox.start([str(SYMPHONY), "up", stack, "-y"])
        most = 0
        while process.poll() is None:
            running = [
                each
                for each in live("pods", stack)
                if any("running" in c["state"] for c in each["status"].get("containerStatuses", ()))
            ]
            most = max(most, len(running))
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, out + err
        assert "controller" in out
        assert most == 1
        becomes(sandbox, stack, "a", "running")
        assert len(live("pods", stack)) == 1
        assert len(live("jobs", stack)) == (controller == "Job")
