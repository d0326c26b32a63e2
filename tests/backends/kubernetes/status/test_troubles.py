"""`symphony up` on the real cluster reports each kind of failure in one line, within its time limit."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.backends.kubernetes.test_runs import Live, up
from tests.sandbox import Sandbox

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]

SLEEPER = 'with Experiment("e") as e: e.new_process("a", command="sleep", args=["999"])'


def line_of(output: str, path: str) -> str:
    """Return the only line about a process at the end of an `up`."""
    (line,) = [
        each for each in output.splitlines() if each.startswith(f"  {path}   ") and "symphony why" in each
    ]
    return line


def lines(output: str) -> list[str]:
    """Return the lines with the reason of a failed run."""
    return [each for each in output.splitlines() if each.startswith("symphony: ")]


def test_up_shows_the_last_log_lines_of_a_crash_loop(sandbox: Sandbox, stack: str) -> None:
    # The process ends at once, so that `up` does not see it running.
    output = up(
        sandbox,
        stack,
        """
with Experiment("e") as e:
    p = e.new_process("a", command="sh", args=["-c", "seq 10 14; exit 7"])
    p.restart_policy("Always")
""",
        code=1,
    )
    line = line_of(output, "a")
    assert "CrashLoopBackOff: exit 7: 14" in line
    at = output.splitlines().index(line)
    assert output.splitlines()[at + 1 : at + 4] == ["    | 12", "    | 13", "    | 14"]


@pytest.mark.thorough
def test_up_reports_a_limit_range_and_an_exhausted_quota_and_keeps_running_pods(
    sandbox: Sandbox, stack: str, live: Live, kubectl: Callable[..., str]
) -> None:
    up(sandbox, stack, SLEEPER)
    before = live("pods", stack)[0]["metadata"]["uid"]
    limit = {"type": "Container", "max": {"cpu": "100m"}}
    metadata = {"name": "small", "namespace": stack}
    thing = {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [limit]}}
    kubectl("apply", "-f", "-", stdin=json.dumps(thing))
    greedy = SLEEPER + '; p = e.new_process("b", command="true"); p.resource_request(cpu=1)'
    refused = up(sandbox, stack, greedy + "; p.resource_limit(cpu=1)", code=2)
    assert "b is refused by the cluster: maximum cpu usage per Container is 100m, but limit is 1" in refused
    kubectl("-n", stack, "delete", "limitrange", "small")
    kubectl("-n", stack, "create", "quota", "few", "--hard=pods=1")
    kubectl("-n", stack, "wait", "--for=jsonpath={.status.used.pods}=1", "quota/few", "--timeout=30s")
    output = up(sandbox, stack, SLEEPER + '; e.new_process("b", command="true")', code=1)
    (line,) = lines(output)
    assert (
        'pods "b" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1' in line
    )
    assert "(b)" in line
    assert "not created: exceeded quota: few" in sandbox.processes(stack)["b"]["why"]
    assert [each["metadata"]["uid"] for each in live("pods", stack)] == [before]


def test_up_quotes_a_pod_security_violation_with_a_remedy(
    sandbox: Sandbox, stack: str, place: str, kubectl: Callable[..., str]
) -> None:
    kubectl("label", "namespace", place, "pod-security.kubernetes.io/enforce=restricted")
    refused = up(sandbox, stack, SLEEPER, code=2)
    assert 'a is refused by the cluster: violates PodSecurity "restricted:latest"' in refused
    assert "symphony:podSecurity: restricted" in refused
