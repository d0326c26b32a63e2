"""Failing pods on the real cluster, as `up`, `process` and `why` report them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.backends.kubernetes.conftest import configured
from tests.backends.kubernetes.test_runs import becomes, up
from tests.sandbox import Sandbox, wait_for
from toolchain.kubernetes.fixtures import Access as Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]

TROUBLES = """
with Experiment("e") as e:
    e.new_process("fine", command="sleep", args=["999"]).resource_request(cpu="10m", memory="16Mi")
    e.new_process("large", command="true").resource_request(cpu=500)
    e.new_process("nowhere", command="true").node_selector("kubernetes.io/os", "plan9")
    e.new_process("imageless", command="true", image="localhost:5000/no/such:1")
    e.new_process("commandless", command="no-such-command")
    e.new_process("mountless", command="true").mount_secret("no-such", "/x")
    e.new_process("done", command="true")
    e.new_process("bad", command="sh", args=["-c", "echo first; echo the reason; exit 3"])
    loop = e.new_process("loop", command="sh", args=["-c", "echo no gpu; exit 4"])
    loop.restart_policy("Always")
    e.new_process("killed", command="sh", args=["-c", "kill -9 $$$$; kill -SEGV 1; exit 139"])
    hog = e.new_process("hog", command="sh", args=["-c", "x=y; while true; do x=$x$x; done"])
    hog.resource_limit(memory="16Mi")
"""


@pytest.fixture(scope="module")
def troubles(sandbox: Sandbox, cluster: Cluster, kubectl: Callable[..., str]) -> Iterator[tuple[str, str]]:
    """Return one stack with all kinds of failing pods, slow to fail, and the output of its `up`."""
    with configured(sandbox, cluster, kubectl) as name:
        yield name, up(sandbox, name, TROUBLES, code=1)


def steps(sandbox: Sandbox, *words: str) -> dict[str, dict[str, Any]]:
    return {each["step"]: each for each in sandbox.symphony("why", *words, "--json").json["links"]}


def broken(sandbox: Sandbox, stack: str, path: str, step: str) -> dict[str, Any]:
    result = steps(sandbox, stack, path)
    assert [name for name, each in result.items() if each["broken"]] == [step] == list(result)[-1:], result
    return result[step]


def test_up_and_process_report_each_failure_with_its_reason(
    sandbox: Sandbox, troubles: tuple[str, str]
) -> None:
    stack, result = troubles
    paths = {line.split()[0] for line in result.splitlines() if f"symphony why {stack} " in line}
    # The process that exceeds its memory may take longer than `up` waits.
    expected = {"large", "nowhere", "imageless", "commandless", "mountless", "bad", "loop", "killed"}
    assert paths - {"hog"} == expected
    assert "didn't match" in becomes(sandbox, stack, "nowhere", "waiting", "Unschedulable")["why"]
    assert "localhost:5000/no/such:1" in becomes(sandbox, stack, "imageless", "waiting", "Pull")["why"]
    assert becomes(sandbox, stack, "bad", "failed")["why"] == "exit 3: the reason"
    assert becomes(sandbox, stack, "killed", "failed")["why"].startswith("exit 139 (SIGSEGV)")
    assert becomes(sandbox, stack, "loop", "waiting", "CrashLoopBackOff")["why"].endswith("exit 4: no gpu")
    becomes(sandbox, stack, "done", "completed")
    assert "no-such" in becomes(sandbox, stack, "mountless", "waiting", "FailedMount")["why"]


@pytest.mark.thorough
def test_why_ends_each_chain_at_the_failing_step(
    sandbox: Sandbox, troubles: tuple[str, str], own: Cluster
) -> None:
    stack, _ = troubles
    result = steps(sandbox, stack, "fine")
    assert list(result) == ["declared", "planned", "created", "scheduled", "pulled", "started", "ready"]
    assert result["declared"]["what"] == "__main__.py:4"
    assert result["planned"]["what"] == f"{own.shell_image}, 10m cpu, 16Mi memory"

    large = broken(sandbox, stack, "large", "scheduled")
    assert "Insufficient cpu" in large["what"]
    assert "It would fit with cpu <= " in large["remedy"]
    nowhere = broken(sandbox, stack, "nowhere", "scheduled")
    assert "no node has kubernetes.io/os=plan9; nodes have kubernetes.io/os: linux" in nowhere["remedy"]

    imageless = broken(sandbox, stack, "imageless", "pulled")
    assert "localhost:5000/no/such:1" in imageless["what"]
    assert "not found" in imageless["more"][0]
    assert imageless["remedy"] == "Push the image, or correct its name"

    commandless = broken(sandbox, stack, "commandless", "started")
    assert commandless["what"] == 'no: the image has no program "no-such-command"'
    assert commandless["since"] is None
    becomes(sandbox, stack, "mountless", "waiting", "FailedMount")
    assert '"no-such" not found' in broken(sandbox, stack, "mountless", "prepared")["what"]

    assert steps(sandbox, stack, "done")["exit"]["what"] == "exit 0"
    bad = broken(sandbox, stack, "bad", "exit")
    assert (bad["what"], bad["more"]) == ("exit 3", ["first", "the reason"])
    becomes(sandbox, stack, "loop", "waiting", "CrashLoopBackOff")

    def looping() -> dict[str, Any] | None:
        link = broken(sandbox, stack, "loop", "exit")
        # Sometimes the container is between its exit and the back-off.
        return link if link["what"].startswith("exit 4, repeatedly") else None

    loop = wait_for(looping, 30, "that it fails again and again is told")
    assert loop["more"] == ["no gpu"]
    becomes(sandbox, stack, "hog", "failed")
    hog = broken(sandbox, stack, "hog", "exit")
    # On a busy machine containerd may not report the reason.
    assert "exit 137 (SIGKILL)" in hog["what"]
    assert "resource_limit(memory=...)" in hog["remedy"]

    output = sandbox.symphony("why", stack, "bad").out.splitlines()
    assert output[-4].endswith("<- here")
    assert f"symphony logs {stack} bad" in output[-1]
