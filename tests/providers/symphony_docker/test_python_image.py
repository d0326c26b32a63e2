"""Image.python with requirements that pip installs from a package registry; a pod runs the image."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from symphony_docker.engine import Engine
from tests.providers.symphony_docker.conftest import Place, local_images
from tests.sandbox import wait_for
from toolchain.kubernetes import python_image

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow, pytest.mark.timeout(400)]
PROGRAM = """
from symphony import Image
code = ["agents/**/*.py", "*.py"]
with Experiment("e") as e:
    image = Image.python("rl", code=code, base="BASE")
    e.new_process("a", image=image, command=["python", "train.py"])
"""
TRAIN = """
import json, os, time
from pathlib import Path
import caraml, six
from agents.deep import net
kept = [str(each) for home in ("", "*/") for each in Path("/").glob(f"{home}.cache/pip/*")]
there = [str(each) for each in Path("/app").rglob("*") if each.is_file() and ".symphony" not in each.parts]
facts = [net.VALUE, six.__version__, os.getuid(), os.environ["PYTHONUNBUFFERED"], kept, there]
print(json.dumps(facts))
time.sleep(1000)
"""


def build_base_image(place: Place, folder: Path) -> str:
    """Build a base image with Python, pip and this machine's pip settings, instead of pulling one."""
    spec = importlib.util.find_spec("pip")
    assert spec is not None
    assert spec.origin is not None
    shutil.copytree(Path(spec.origin).parent, folder / "pip", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(os.environ.get("PIP_CERT") or ssl.get_default_verify_paths().cafile, folder / "ca.crt")
    settings = {
        name: value for name in ("PIP_INDEX_URL", "PIP_TRUSTED_HOST") if (value := os.environ.get(name))
    }
    lines = [f"FROM {python_image.push()}", "COPY pip /opt/pip/pip", "COPY ca.crt /opt/ca.crt"]
    lines += [f"ENV {name}={value}" for name, value in settings.items()]
    (folder / "Dockerfile").write_text(
        "\n".join([*lines, "ENV PYTHONPATH=/opt/pip PIP_CERT=/opt/ca.crt", ""])
    )
    name = f"{place.repository}-base:1"
    words = ["docker", "--host", Engine().address, "build", "-q", "-t", name, str(folder)]
    subprocess.run(
        words, check=True, capture_output=True, timeout=300, env=os.environ | {"DOCKER_BUILDKIT": "0"}
    )
    return name


def test_an_edit_of_code_reuses_the_layer_of_requirements(place: Place, tmp_path: Path) -> None:
    image = build_base_image(place, tmp_path / "base")
    for name, text in {
        "requirements.txt": "six==1.17.0\n",
        "agents/deep/net.py": "VALUE = 1\n",
        "agents/data.bin": "not code",
        "train.py": TRAIN,
    }.items():
        place.write(name, text)
    (place.sandbox.folder / ".dockerignore").unlink()
    place.sandbox.write(PROGRAM.replace("BASE", image))

    def run(value: int) -> list[str]:
        """Return the layers of the image of the pod, which reports its contents."""
        place.write("agents/deep/net.py", f"VALUE = {value}\n")
        output = place.up()
        assert "image rl  pushed" in output
        facts: list[Any] = wait_for(lambda: printed(value), 60, "the pod says what it has", pause=0.5)
        code = ["/app/agents/deep/net.py", "/app/train.py"]
        assert facts[1:5] == ["1.17.0", 1000, "1", []]
        context = {"/app/__main__.py", "/app/requirements.txt", "/app/Dockerfile"}
        assert {*code} <= {*facts[5]} <= {*code, *context}
        (name,) = local_images(place)
        return Engine().api.inspect_image(name)["RootFS"]["Layers"]

    def printed(value: int) -> list[Any]:
        lines = place.sandbox.symphony("logs", "dev", "a").out.splitlines()
        result = [json.loads(line) for line in lines if line.startswith("[")]
        return next((each for each in result if each[0] == value), [])

    first, second = run(1), run(2)
    # The layers of the base, the requirements and caraml are the same; the last two layers are the code.
    assert first[:-2] == second[:-2]
    assert first != second
    Engine().remove(image, force=True)
