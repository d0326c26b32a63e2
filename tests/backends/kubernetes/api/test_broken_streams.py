"""`logs`, `exec` and `visit` when their connection breaks: resumed without loss, or a one-line error."""

from __future__ import annotations

import json
import shutil
import signal
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from symphony.backends.kubernetes import observe
from symphony.backends.kubernetes.api.client import client_of, path_of
from symphony.backends.observe import Recorded
from tests.backends.kubernetes.relay import relayed
from tests.backends.kubernetes.status.test_troubles import SLEEPER
from tests.backends.kubernetes.test_runs import up
from tests.sandbox import SYMPHONY, Sandbox, wait_for
from toolchain.kubernetes.fixtures import Access as Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.thorough, pytest.mark.timeout(300)]
COUNTING = """
with Experiment("e") as e:
    e.new_process("a", command="sh", args=["-c", "i=0; while :; do echo n $i; i=$((i+1)); sleep 0.1; done"])
"""


def test_logs_resume_after_a_broken_connection(
    sandbox: Sandbox, stack: str, cluster: Cluster, tmp_path: Path
) -> None:
    """No line is lost or printed twice; the command ends when the pod is gone."""
    with relayed(cluster.kubeconfig, tmp_path) as (kubeconfig, cut):
        sandbox.config(stack, **{"kubernetes:kubeconfig": kubeconfig})
        up(sandbox, stack, COUNTING, code=0)
        following = sandbox.start([str(SYMPHONY), "logs", stack, "a", "-f"])
        assert following.stdout is not None
        seen: list[int] = []
        for moment in (20, 40, 60, 80):
            while len(seen) < moment:
                seen.append(int(following.stdout.readline().split()[1]))
            wait_for(cut, 20, "a connection to cut")
        client_of(cluster.kubeconfig, "").delete(path_of("pods", stack, "a"), grace=0)
        # communicate() would miss the data that readline() has buffered.
        out = following.stdout.read()
        _, err = following.communicate(timeout=60)
        seen += [int(line.split()[1]) for line in out.splitlines() if line.startswith("n ")]
        assert seen == list(range(len(seen)))
        assert following.returncode == 1, err  # its process was killed
        sandbox.config(stack, **{"kubernetes:kubeconfig": cluster.kubeconfig})


def test_logs_renew_an_expired_token_while_following(
    sandbox: Sandbox, stack: str, cluster: Cluster, tmp_path: Path, kubectl: Callable[..., str]
) -> None:
    """The log continues with a new token of the kubeconfig's exec plugin."""
    up(sandbox, stack, COUNTING, code=0)
    for name in ("first", "second"):
        kubectl("-n", stack, "create", "serviceaccount", name)
        bound = ["--clusterrole=cluster-admin", f"--serviceaccount={stack}:{name}"]
        kubectl("-n", stack, "create", "rolebinding", name, *bound)
        (tmp_path / name).write_text(kubectl("-n", stack, "create", "token", name).strip())
    plugin, current = tmp_path / "plugin", tmp_path / "current"
    answer = '{"apiVersion": "%s", "kind": "ExecCredential", "status": {"token": "%s"}}'
    version = "client.authentication.k8s.io/v1"
    plugin.write_text(
        f"""#!/bin/sh\necho asked >> {tmp_path}/asked\nprintf '{answer}' {version} $(cat {current})\n"""
    )
    plugin.chmod(0o755)
    shutil.copy(tmp_path / "first", current)
    with relayed(cluster.kubeconfig, tmp_path) as (kubeconfig, cut):
        content = yaml.safe_load(Path(kubeconfig).read_text())
        login = {"apiVersion": version, "command": str(plugin), "interactiveMode": "Never"}
        content["users"][0]["user"] = {"exec": login}
        Path(kubeconfig).write_text(json.dumps(content))
        connection = {"kubeconfig": kubeconfig}
        recorded = Recorded("", stack, {"a": {"pod_name": "a", "container_name": "a"}}, connection=connection)
        lines = observe.logs(recorded, ["a"], follow=True)
        seen = [int(next(lines).text.split()[1]) for _ in range(20)]
        shutil.copy(tmp_path / "second", current)
        kubectl("-n", stack, "delete", "serviceaccount", "first")
        asked = len((tmp_path / "asked").read_text().splitlines())
        # The API server caches a token for ten seconds.
        deadline = time.monotonic() + 60
        while len((tmp_path / "asked").read_text().splitlines()) == asked and time.monotonic() < deadline:
            cut()
            ahead = time.monotonic() + 2
            while time.monotonic() < ahead:
                seen.append(int(next(lines).text.split()[1]))
        seen += [int(next(lines).text.split()[1]) for _ in range(20)]
    assert len((tmp_path / "asked").read_text().splitlines()) > asked
    assert seen == list(range(len(seen)))


def test_exec_fails_with_one_line_when_its_connection_breaks_or_its_pod_is_killed(
    sandbox: Sandbox, stack: str, cluster: Cluster, tmp_path: Path
) -> None:
    with relayed(cluster.kubeconfig, tmp_path) as (kubeconfig, cut):
        sandbox.config(stack, **{"kubernetes:kubeconfig": kubeconfig})
        up(sandbox, stack, SLEEPER, code=0)
        code, err, _ = _exec_interrupted_by(sandbox, stack, cut)
        assert code not in (0, None)
        assert len(err.splitlines()) == 1, err
        pod = path_of("pods", stack, "a")
        code, err, seconds = _exec_interrupted_by(
            sandbox, stack, lambda: client_of(cluster.kubeconfig, "").delete(pod, grace=0)
        )
        assert code not in (0, None)
        assert len(err.splitlines()) <= 1, err
        assert seconds < 20
        sandbox.config(stack, **{"kubernetes:kubeconfig": cluster.kubeconfig})


def _exec_interrupted_by(
    sandbox: Sandbox, stack: str, disturb: Callable[[], object]
) -> tuple[int, str, float]:
    """Return the exit code, the output and the duration of a command whose stream breaks in its middle."""
    words = [str(SYMPHONY), "exec", stack, "a", "--", "sh", "-c", "echo ready; sleep 300"]
    running = sandbox.start(words)
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    began = time.monotonic()
    disturb()
    _, err = running.communicate(timeout=60)
    return running.returncode, err, time.monotonic() - began


def test_visit_still_forwards_after_its_connections_broke(
    sandbox: Sandbox, stack: str, cluster: Cluster, tmp_path: Path
) -> None:
    serve = "echo hello > /tmp/index.html; httpd -p 6006 -h /tmp; sleep 999"
    program = f"""
with Experiment("e") as e:
    e.new_process("a", command="sh", args=["-c", {serve!r}]).exposes({{"board": 6006}})
"""

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"{url}/index.html", timeout=10) as answer:
                return answer.read() == b"hello\n"
        except OSError:
            return False

    with relayed(cluster.kubeconfig, tmp_path) as (kubeconfig, cut):
        sandbox.config(stack, **{"kubernetes:kubeconfig": kubeconfig})
        up(sandbox, stack, program, code=0)
        visiting = sandbox.start([str(SYMPHONY), "visit", stack, "-u"])
        assert visiting.stdout is not None
        url = visiting.stdout.readline().strip()
        for _ in range(3):
            wait_for(answers, 20, "it answers", pause=0.3)
            cut()
        visiting.send_signal(signal.SIGINT)
        visiting.communicate(timeout=15)
        sandbox.config(stack, **{"kubernetes:kubeconfig": cluster.kubeconfig})
