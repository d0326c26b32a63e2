"""Builds an image of this repository with the real Docker, and pushes it to the registry."""

import importlib.metadata
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from toolchain.kubernetes import python_image
from toolchain.kubernetes.calls import run

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
BUILD_DEADLINE = 300
# Locked packages of examples/surreal that only draw plots or are in the base image, and setuptools.
_NOT_IN_PODS = re.compile("matplotlib|contourpy|cycler|fonttools|kiwisolver|pyparsing|setuptools|numpy")
PUSH_DEADLINE = 120


def examples(registry: str, docker_host: str, folder: str = "examples/numint") -> str:
    """Build the image of the examples on this machine's Python instead of a pulled base image.

    folder: where its processes begin, from the root of the repository.
    """
    arguments = [
        f"--build-arg={argument}" for argument in (f"BASE={python_image.push()}", f"FOLDER={folder}")
    ]
    return build_and_push(registry, docker_host, ROOT, "examples", *arguments, "-f", EXAMPLES / "Dockerfile")


def surreal_packages(docker_host: str) -> str:
    """Build a base for examples/surreal/Dockerfile from the packages of this Python; not pushed (500 MB)."""
    locked = (ROOT / "requirements/examples.txt").read_text()
    names = [name for name in re.findall(r"^([\w.-]+)==", locked, re.M) if not _NOT_IN_PODS.match(name)]
    with tempfile.TemporaryDirectory(dir=ROOT / ".venv") as folder:
        files = dict(_files_of(dict.fromkeys(names)))
        programs = [file for file in files.values() if ".so" in file.name]
        for place, file in [*files.items(), *python_image.linked_libraries(programs)]:
            target = Path(folder, "root", place)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
        recipe = f"FROM {python_image.push()}\nCOPY root /\nENV PYTHONPATH=/opt/packages\n"
        Path(folder, "Dockerfile").write_text(recipe)
        docker = _docker(docker_host)
        image_id = _build(docker, Path(folder))
    image = f"symphony/surreal-packages:{image_id.removeprefix('sha256:')[:16]}"
    run([*docker, "tag", image_id, image])
    return image


def _files_of(names: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Return path in the image -> the file of an installed package."""
    for name in names:
        for file in importlib.metadata.distribution(name).files or ():
            source = Path(str(file.locate()))
            if source.is_file() and not {"..", "__pycache__", "tests"} & set(file.parts):
                yield f"opt/packages/{file}", source


def build_and_push(registry: str, docker_host: str, folder: Path, name: str, *options: str | Path) -> str:
    """Build an image of a folder, push it, and return its name."""
    docker = _docker(docker_host)
    image_id = _build(docker, folder, *options)
    # The name depends on the content: a node with an image of that name does not pull a newer one.
    image = f"{registry}/symphony/{name}:{image_id.removeprefix('sha256:')[:16]}"
    run([*docker, "tag", image_id, image])
    run([*docker, "push", "-q", image], timeout=PUSH_DEADLINE)
    return image


def _docker(docker_host: str) -> list[str]:
    """Return the beginning of a docker command for this engine."""
    host = docker_host or os.environ.get("DOCKER_HOST", "")
    return ["env", "DOCKER_BUILDKIT=0", *([f"DOCKER_HOST={host}"] if host else []), "docker"]


def _build(docker: list[str], folder: Path, *options: str | Path) -> str:
    """Build an image of a folder and return its id."""
    return run([*docker, "build", "-q", *options, folder], timeout=BUILD_DEADLINE).strip()
