"""The examples as pods with real images; numint survives the loss of a pod."""

from __future__ import annotations

import math
import re
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import yaml

from tests.documents import blocks, talk
from tests.examples.test_zmq import PRINTED
from tests.sandbox import SYMPHONY, Sandbox, clone_in, sandbox_in, wait_for
from toolchain.kubernetes import docker_build, python_image
from toolchain.kubernetes.fixtures import Access, cluster
from toolchain.plugins import install

__all__ = ["cluster"]
pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(500)]
STACK = "numint.pods"
NUMINT = {"numint:workers": "3", "numint:steps": "600000000", "numint:pieces": "60"}
Made = Callable[..., AbstractContextManager[Sandbox]]


@pytest.fixture
def project_on_cluster(cluster: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Return make(stack, folder), which yields the root project with that stack; its pods start in folder."""
    if not cluster.registry:
        pytest.skip("SYMPHONY_TEST_KUBECONFIG names a cluster without a registry to push an image to")

    @contextmanager
    def make(stack: str, folder: str, **more: str) -> Iterator[Sandbox]:
        clone = clone_in(tmp_path)
        namespace = f"{stack.partition('.')[0]}-{uuid.uuid4().hex[:6]}"
        settings = {
            "symphony:backend": "kubernetes",
            "symphony:image": docker_build.examples(cluster.registry, cluster.docker_host, folder),
            "symphony:namespace": namespace,
            "symphony:podSecurity": "restricted",
            "symphony:supervisorImage": cluster.python_image,
            "kubernetes:kubeconfig": cluster.kubeconfig,
            **more,
        }
        (clone / "stacks" / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump({"config": settings}))
        with sandbox_in(tmp_path, folder=clone) as sandbox:
            monkeypatch.setenv("PULUMI_HOME", sandbox.environment["PULUMI_HOME"])
            install()
            try:
                yield sandbox
                sandbox.symphony("delete", stack, "-y")
                assert (
                    kubectl(cluster, "get", "namespace", namespace, "--ignore-not-found", "-o", "name") == ""
                )
            finally:
                kubectl(cluster, "delete", "namespace", namespace, "--ignore-not-found", "--wait=false")

    return make


def kubectl(cluster: Access, *words: str) -> str:
    argv = [cluster.kubectl, f"--kubeconfig={cluster.kubeconfig}", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout


def test_numint_on_pods_survives_a_lost_pod(project_on_cluster: Made, cluster: Access) -> None:
    """Two of three workers share the lost pod: the third does their pieces."""
    with project_on_cluster(STACK, "examples/numint", **NUMINT) as sandbox:
        _check_result_after_losing_a_pod(sandbox, cluster)


def _check_result_after_losing_a_pod(sandbox: Sandbox, cluster: Access) -> None:
    running = sandbox.start([str(SYMPHONY), "up", STACK, "-y"])

    def working() -> bool:
        printed = sandbox.symphony("logs", STACK, "worker-0", code=None)
        return printed.code == 0 and "piece " in printed.out

    wait_for(working, 120, "the worker works", pause=0.5)
    namespace = yaml.safe_load((sandbox.folder / "stacks" / f"Pulumi.{STACK}.yaml").read_text())["config"][
        "symphony:namespace"
    ]
    kubectl(cluster, "-n", namespace, "delete", "pod", "pool-0", "--grace-period=0", "--force")
    running.communicate(timeout=120)

    def result() -> re.Match[str] | None:
        return re.search(
            r"^pi = (\S+), off by (\S+), .*: right$", sandbox.symphony("logs", STACK, "reducer").out, re.M
        )

    value = wait_for(result, 180, "the result", pause=1)
    assert abs(float(value[1]) - math.pi) < 1e-9
    assert float(value[2]) < 1e-9
    output = sandbox.symphony("logs", STACK, "reducer").out
    assert "from 3 workers" in output
    assert "60/60 pieces" in output
    states = {path: each["state"] for path, each in sandbox.processes(STACK).items()}
    assert (states["pool-0/worker-0"], states["pool-0/worker-1"]) == ("lost", "lost")
    wait_for(
        lambda: sandbox.processes(STACK)["reducer"]["state"] == "completed", 30, "the reducer ends", pause=0.5
    )


@pytest.mark.thorough
def test_every_caraml_pattern_works_on_pods(project_on_cluster: Made, cluster: Access) -> None:
    """The pods run in the image that the program declares."""
    settings = {"symphony:registry": f"{cluster.registry}/test", "zmq:base": python_image.push()}
    with project_on_cluster("zmq.pods", "examples/zmq", **settings) as sandbox:
        sandbox.environment["DOCKER_HOST"] = cluster.docker_host
        sandbox.symphony("up", "zmq.pods", "-y", code=None, timeout=120)

        def all_work() -> bool:
            output = sandbox.symphony("logs", "zmq.pods", *PRINTED).out
            return all(words in output for words in PRINTED.values())

        try:
            wait_for(all_work, 180, "all work", pause=1)
        except AssertionError:
            # Without echo-server: it prints a traceback on purpose, which Sandbox.run refuses.
            logs = ("logs", "zmq.pods", *PRINTED, "queue-push", "results-receiver", "proxy")
            pytest.fail("\n".join(sandbox.symphony(*words).out for words in (("process", "zmq.pods"), logs)))


def test_image_python_installs_caraml_that_the_code_does_not_contain(
    project_on_cluster: Made, cluster: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program of docs/kubernetes.md with that of README.md; the base has what caraml imports."""
    (program,) = blocks("docs/kubernetes.md", "python")
    program = program.replace("requirements=None", f'requirements=None, base="{python_image.push()}"')
    monkeypatch.setenv("DOCKER_HOST", cluster.docker_host)
    registry = f"{cluster.registry}/test"
    with project_on_cluster("hello.pods", ".", **{"symphony:registry": registry}) as sandbox:
        (sandbox.folder / "talk.py").write_text(talk())
        sandbox.write(program, "stacks/hello.py")
        (sandbox.folder / ".dockerignore").write_text("")
        sandbox.environment["DOCKER_HOST"] = cluster.docker_host
        sandbox.symphony("up", "hello.pods", "-y", timeout=120)
        wait_for(
            lambda: sandbox.symphony("logs", "hello.pods", "learner").out.startswith("1.0"), 60, "it learns"
        )
