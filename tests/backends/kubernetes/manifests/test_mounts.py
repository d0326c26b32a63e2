"""Mounts: the manifest of an emptyDir, and a real pod that reads all kinds but NFS and git."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from symphony import Experiment
from symphony.backends.kubernetes import expand
from symphony.backends.kubernetes.manifests.render import render
from symphony.backends.kubernetes.settings import Settings
from symphony.plan.build import build_plan
from tests.backends.kubernetes.test_runs import becomes, up
from tests.sandbox import Sandbox, wait_for
from toolchain.kubernetes.fixtures import Access as Cluster

PROGRAM = """
look = "cat /key/word /host/word; cat /dev/shm/own; cat /proc/mounts; ls -lL /key/word; sleep 999"
first = {{
    "writes": "echo handed over > /scratch/word; echo in memory > /dev/shm/own; ",
    "reads": "until cat /scratch/word /dev/shm/own >/dev/null 2>&1; do sleep 0.2; done; cat /scratch/word; ",
}}
with Experiment("e") as e:
    pair = e.new_process_group("pair")
    for name in first:
        p = pair.new_process(name, command="sh", args=["-c", first[name] + look])
        p.mount_secret("mine", "/key", default_mode=0o400)
        p.mount_host_path({host!r}, "/host", "Directory")
        p.mount_empty_dir("scratch", False, "/scratch")
        p.mount_shared_memory()
"""


@pytest.mark.parametrize("memory", [True, False], ids=["memory", "disk"])
@pytest.mark.parametrize("owner", ["process", "group"])
def test_mount_empty_dir_uses_memory_only_if_requested(owner: str, memory: bool) -> None:
    experiment = Experiment("e")
    group = experiment.new_process_group("pair")
    process = group.new_process("a")
    {"process": process, "group": group}[owner].mount_empty_dir("scratch", memory, "/scratch")
    settings = Settings(image="x:1")
    plan = build_plan(experiment.spec, expand.offline_limits(experiment.spec, settings, "e"))
    _, pod = render(plan, settings, "test/e#1").pods["pair"]
    assert pod["spec"]["volumes"] == [{"name": "scratch", "emptyDir": {"medium": "Memory"} if memory else {}}]
    (container,) = pod["spec"]["containers"]
    assert container["volumeMounts"] == [{"name": "scratch", "mountPath": "/scratch"}]


@pytest.fixture
def host(own: Cluster) -> Iterator[Path]:
    """A folder on the node."""
    folder = Path(f"/var/tmp/symphony-{uuid.uuid4().hex[:8]}")
    folder.mkdir()
    (folder / "word").write_text("of the host\n")
    yield folder
    (folder / "word").unlink()
    folder.rmdir()


@pytest.mark.kubernetes
@pytest.mark.timeout(300)
def test_a_pod_reads_its_mounts(
    sandbox: Sandbox, stack: str, place: str, host: Path, kubectl: Callable[..., str]
) -> None:
    kubectl("-n", place, "create", "secret", "generic", "mine", "--from-literal=word=hush")
    sandbox.config(stack, podSecurity="privileged")
    up(sandbox, stack, PROGRAM.format(host=str(host)), code=0)
    becomes(sandbox, stack, "pair/reads", "running")

    def printed() -> list[str]:
        out = sandbox.symphony("logs", stack, "pair/reads", "--json").out
        result = [json.loads(line)["text"] for line in out.splitlines()]
        return result if any("hush" in each for each in result) and "in memory" in result else []

    words = wait_for(printed, 30, "it has read everything", pause=0.5)
    assert "handed over" in words, "the empty folder is one for the pod"
    assert any("of the host" in each for each in words)
    assert any(each.startswith("tmpfs /dev/shm tmpfs ") for each in words)
    assert any(each.startswith("-r--") for each in words), words
