"""A private Docker engine: its disk fills up, it stops during a build, its images are cleaned up."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import psutil
import pytest

from symphony import DockerBuilder, clean_images
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
    """The context of an image; a machine with the cluster also has the programs of an engine."""
    del cluster
    monkeypatch.setenv("SYMPHONY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    result = tmp_path / "context"
    result.mkdir()
    (result / "busybox").write_bytes(images.busybox_program().read_bytes())
    (result / "busybox").chmod(0o755)
    return result


def test_a_full_disk_or_stopped_docker_engine_is_one_line_and_leaves_nothing(
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
        full = (
            "the disk of the Docker engine is full."
            " Run `docker builder prune` or `symphony images clean` to free space."
        )
        assert build('RUN ["/bin/busybox", "dd", "if=/dev/zero", "of=/x", "bs=1M", "count=100"]') == full
        (context / "large").write_bytes(os.urandom(MEGABYTES * 1_000_000))
        assert build("COPY large /large") == full
        (context / "large").unlink()
        assert Engine().api.containers(all=True) == []
        assert Engine().list_images(own=True) == []
        # The cache of a failed build fills the disk until it is pruned.
        Engine().api.prune_builds()
        building = threading.Thread(target=build, args=['RUN ["/bin/busybox", "sleep", "60"]'])
        building.start()
        words = ["/bin/busybox", "sleep", "60"]

        def steps() -> list[psutil.Process]:
            return [each for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"] == words]

        wait_for(steps, 60, "the step runs", pause=0.2)
        process.kill()
        process.wait(60)
        building.join(60)
        assert errors[-1].startswith("the Docker engine stopped during the build")
        assert errors[-1].endswith("Start Docker, and run the command again.")
    assert build("").startswith("no Docker engine answers: it is not running")


def test_classic_docker_builder_builds_and_clean_images_removes(
    context: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    dockerfile, note = tmp_path / "Dockerfile", tmp_path / "note"
    dockerfile.write_text("FROM scratch\nCOPY tools/busybox /bin/busybox\nCOPY note /note\n")
    note.write_text("one")

    def build(tag: str, *, update: bool, verbose: bool = False) -> str:
        given = [
            {"name": "tools", "path": str(context)},
            {"name": "note", "path": str(note), "force_update": update},
        ]
        return DockerBuilder(str(dockerfile), given, str(tmp_path / "kept"), verbose).build(tag)

    def container(image: str, *words: str) -> str:
        name = Engine().api.create_container(image, ["/bin/busybox", *words])["Id"]
        Engine().api.start(name)
        return name

    with servers.engine(MEGABYTES) as (host, _):
        monkeypatch.setenv("DOCKER_HOST", host)
        first = build("rl:1", update=False, verbose=True)
        assert "COPY tools/busybox" in capfd.readouterr().out
        # Files in temp_directory stay, unless they are updated.
        note.write_text("two")
        assert build("rl:1", update=False) == first
        second = build("rl:1", update=True)
        assert second != first
        assert capfd.readouterr().out == ""
        # An image used by a container stays, unless ended containers are removed first, or by force.
        Engine().api.wait(container("rl:1", "true"))
        assert clean_images(["rl:*"]) == []
        assert clean_images("rl:*", force_prune_containers=True) == ["rl:1"]
        assert Engine().find(second) is None
        build("rl:1", update=True)
        container("rl:1", "sleep", "1000")
        assert clean_images("rl:*", force_prune_containers=True) == []
        assert clean_images("rl:*", force=True) == ["rl:1"]
        # The first image lost its name to the second.
        assert Engine().find(first)
        assert clean_images("nothing", force_prune_images=True) == []
        assert Engine().find(first) is None
