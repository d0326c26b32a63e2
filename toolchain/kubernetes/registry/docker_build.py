"""Builds an image of this repository with the real Docker, and pushes it to the registry; tests ask."""

from __future__ import annotations

import os
from pathlib import Path

from toolchain.kubernetes.calls import run
from toolchain.kubernetes.registry import python_image

ROOT = Path(__file__).parents[3]
BUILD_DEADLINE = 300
PUSH_DEADLINE = 120


def examples(registry: str, docker_host: str, folder: str = "examples/numint") -> str:
    """The image of the examples, over this machine's own Python instead of one that would be pulled.

    folder: where its processes begin, from the root of the repository.
    """
    arguments = [f"--build-arg={each}" for each in (f"BASE={python_image.pushed()}", f"FOLDER={folder}")]
    return pushed(registry, docker_host, ROOT, "examples", *arguments, "-f", ROOT / "examples" / "Dockerfile")


def pushed(registry: str, docker_host: str, folder: Path, name: str, *options: str | Path) -> str:
    """The image that Docker makes of a folder."""
    host = docker_host or os.environ.get("DOCKER_HOST", "")
    docker = ["env", "DOCKER_BUILDKIT=0", *([f"DOCKER_HOST={host}"] if host else []), "docker"]
    made = run([*docker, "build", "-q", *options, folder], timeout=BUILD_DEADLINE).strip()
    # Named by its content: a node that has an image of some name does not look for a newer one.
    image = f"{registry}/symphony/{name}:{made.removeprefix('sha256:')[:16]}"
    run([*docker, "tag", made, image])
    run([*docker, "push", "-q", image], timeout=PUSH_DEADLINE)
    return image
