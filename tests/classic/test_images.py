"""The zmq example of the original: DockerBuilder, then Cluster.new('kube'), until messages flow."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from symphony import DockerBuilder, UserError, clean_images
from symphony.errors import SymphonyError
from symphony_docker.engine import Engine
from tests.sandbox import ROOT, sandbox_in, wait_for
from toolchain.kubernetes import python_image
from toolchain.kubernetes.fixtures import Access, cluster
from toolchain.plugins import install

__all__ = ["cluster"]
pytestmark = [pytest.mark.timeout(400)]
SCRIPT = """
from symphony import Cluster

cluster = Cluster.new("kube", kubeconfig=KUBECONFIG, namespace=NAME)
exp = cluster.new_experiment(NAME)
for name in ("pull", "push"):
    args = ["-u", "push_pull.py", name]
    process = exp.new_process(name, container_image=IMAGE, command=["python"], args=args)
    process.binds("queue") if name == "pull" else process.connects("queue")
cluster.launch(exp)
"""


def settings(tmp_path: Path) -> dict[str, object]:
    dockerfile = tmp_path / "Dockerfile"
    text = (ROOT / "examples" / "Dockerfile").read_text()
    dockerfile.write_text(text.replace("python:3.11-slim", python_image.pushed()))
    return {
        "dockerfile": str(dockerfile),
        "context_directories": [
            {"name": "caraml", "path": str(ROOT / "caraml"), "force_update": True},
            {"name": "examples", "path": str(ROOT / "examples"), "force_update": True},
        ],
        "temp_directory": str(tmp_path / "context"),
        "verbose": True,
    }


@pytest.mark.kubernetes
@pytest.mark.thorough
def test_docker_builder_and_kube_cluster_run_the_zmq_example(
    cluster: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if not cluster.registry:
        pytest.skip("SYMPHONY_TEST_KUBECONFIG names a cluster without a registry to push an image to")
    monkeypatch.setenv("DOCKER_HOST", cluster.docker_host)
    name = f"classic-{uuid.uuid4().hex[:6]}"
    repo = f"{cluster.registry}/{name}/zmq"
    builder = DockerBuilder.from_dict(settings(tmp_path))
    text = Path(builder.dockerfile).read_text().replace("examples/numint", "examples/zmq")
    Path(builder.dockerfile).write_text(text)
    digest = builder.build_and_push(repo, "1")
    assert f"{repo}:1 is {repo}@{digest}" in capfd.readouterr().out
    with sandbox_in(tmp_path) as sandbox:
        monkeypatch.setenv("PULUMI_HOME", sandbox.environment["PULUMI_HOME"])
        install()
        values = {"KUBECONFIG": cluster.kubeconfig, "NAME": name, "IMAGE": f"{repo}:1"}
        script = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()) + SCRIPT
        try:
            sandbox.python(script, timeout=120)
            wait_for(lambda: sandbox.symphony("logs", name, "pull").out, 60, "a message", pause=0.5)
        finally:
            sandbox.symphony("delete", name, "-y", code=None, timeout=120)
    assert clean_images(f"{repo}:*") == [f"{repo}:1"]
    assert Engine().find(f"{repo}:1") is None


def test_docker_builder_keeps_files_of_an_earlier_build(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.txt").write_text("one")
    given = {"name": "in/a", "path": str(tmp_path / "a")}
    for force, text in ((False, "one"), (False, "one"), (True, "two")):
        builder = DockerBuilder(
            tmp_path / "none", [{**given, "force_update": force}], tmp_path / "context", verbose=False
        )
        with pytest.raises(UserError, match="Dockerfile"):
            builder.build()
        assert (tmp_path / "context" / "in" / "a" / "x.txt").read_text() == text
        (tmp_path / "a" / "x.txt").write_text("two")
    with pytest.raises(UserError, match="no setting typo"):
        DockerBuilder.from_dict({"typo": 1})
    with pytest.raises(UserError, match=r"out of the build context: \.\./x"):
        DockerBuilder("d", [{"name": "../x", "path": "."}], tmp_path)


def test_docker_builder_sends_a_suspected_credential_only_if_allowed(
    tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    for name in ("Dockerfile", "token.txt"):
        (tmp_path / name).write_text("FROM scratch\n")
    given = {
        "dockerfile": str(tmp_path / "Dockerfile"),
        "context_directories": [{"name": "in/token.txt", "path": str(tmp_path / "token.txt")}],
        "temp_directory": str(tmp_path / "context"),
    }
    with pytest.raises(UserError, match=r'set allow=\["in/token.txt"\]'):
        DockerBuilder.from_dict(given).build()
    with pytest.raises(SymphonyError, match="no Docker engine answers"):
        DockerBuilder.from_dict({**given, "allow": ["in/token.txt"]}).build()
