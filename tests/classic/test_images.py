"""DockerBuilder of the original: its folders, its build and its push."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from symphony import DockerBuilder, UserError, clean_images
from symphony.errors import SymphonyError
from symphony_docker import image_registry
from symphony_docker.engine import Engine
from toolchain.kubernetes.fixtures import Access, cluster

__all__ = ["cluster"]


@pytest.mark.kubernetes
@pytest.mark.thorough
@pytest.mark.timeout(400)
def test_docker_builder_builds_and_pushes_an_image(
    cluster: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if not cluster.registry:
        pytest.skip("SYMPHONY_TEST_KUBECONFIG names a cluster without a registry to push an image to")
    monkeypatch.setenv("DOCKER_HOST", cluster.docker_host)
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY in/note /note\n")
    (tmp_path / "note").write_text(uuid.uuid4().hex)
    settings = {
        "dockerfile": str(tmp_path / "Dockerfile"),
        "context_directories": [{"name": "in/note", "path": str(tmp_path / "note"), "force_update": True}],
        "temp_directory": str(tmp_path / "context"),
        "verbose": True,
    }
    repo = f"{cluster.registry}/classic-{uuid.uuid4().hex[:6]}/note"
    digest = DockerBuilder.from_dict(settings).build_and_push(repo, "1")
    assert f"{repo}:1 is {repo}@{digest}" in capfd.readouterr().out
    assert image_registry.has(repo, digest)
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
    with pytest.raises(UserError, match=r"has the name \.\./x"):
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
