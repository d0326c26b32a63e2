"""A Docker engine whose disk is full, and one that is stopped amid a build."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from symphony.errors import SymphonyError
from symphony_docker.engine import Engine
from symphony_docker.provider import ImageProvider
from tests.providers.symphony_docker import servers
from tests.sandbox import wait_for
from toolchain.kubernetes import images
from toolchain.kubernetes.fixtures import Access, cluster

__all__ = ["cluster"]
pytestmark = [pytest.mark.kubernetes, pytest.mark.thorough]
MEGABYTES = 40


@pytest.fixture
def context(cluster: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The context of an image; who has the cluster has the programs of an engine."""
    del cluster
    monkeypatch.setenv("SYMPHONY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    result = tmp_path / "context"
    result.mkdir()
    (result / "busybox").write_bytes(images.busybox())
    (result / "busybox").chmod(0o755)
    return result


def test_what_an_engine_fails_at_is_one_line_and_leaves_nothing(
    context: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[str] = []

    def build(steps: str) -> str:
        (context / "Dockerfile").write_text(f"FROM scratch\nCOPY busybox /bin/busybox\n{steps}\n")
        try:
            ImageProvider().create(servers.inputs(context, "127.0.0.1:1/rl"))
        except SymphonyError as error:
            errors.append(error.line)
        return errors[-1]

    with servers.engine(MEGABYTES) as (host, process):
        monkeypatch.setenv("DOCKER_HOST", host)
        full = "the disk of the Docker engine is full. Make room: `symphony images clean`."
        assert build('RUN ["/bin/busybox", "dd", "if=/dev/zero", "of=/x", "bs=1M", "count=100"]') == full
        (context / "large").write_bytes(os.urandom(MEGABYTES * 1_000_000))
        assert build("COPY large /large") == full
        (context / "large").unlink()
        assert Engine().api.containers(all=True) == []
        assert Engine().list_images(ours=True) == []
        building = threading.Thread(target=build, args=['RUN ["/bin/busybox", "sleep", "60"]'])
        building.start()
        wait_for(lambda: Engine().api.containers(), 60, "the step runs", pause=0.2)
        process.kill()
        process.wait(60)
        building.join(60)
        assert errors[-1].startswith("the Docker engine went away amid the build")
        assert errors[-1].endswith("Start it, and run this again.")
    assert build("").startswith("no Docker engine answers: it is not running")
