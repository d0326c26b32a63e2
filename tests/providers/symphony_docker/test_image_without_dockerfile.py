"""The Dockerfile that Image.python writes."""

from __future__ import annotations

import tomllib

from symphony import Image
from symphony_docker import dockerfile
from tests.sandbox import ROOT


def test_code_is_copied_after_packages_are_installed_and_runs_as_non_root() -> None:
    lines = dockerfile.python(
        "python:3.12-slim", "conf/requirements.txt", ["agents/", "train.py"]
    ).splitlines()
    assert lines[0] == "FROM python:3.12-slim"
    assert "PYTHONUNBUFFERED=1" in lines[1]
    steps = [
        lines.index(next(line for line in lines if words in line)) for words in ("-r ", "caraml /", "agents")
    ]
    assert steps == sorted(steps)
    assert 'COPY ["agents", "/app/agents"]' in lines
    assert 'COPY ["train.py", "/app/train.py"]' in lines
    installs = [line for line in lines if "pip install" in line]
    for option in ("--mount=type=cache,target=/root/.cache/pip", "--cache-dir=/root/.cache/pip"):
        assert all(option in line for line in installs)
    assert lines[-1] == "USER 1000:1000"


def test_code_dot_copies_the_whole_folder() -> None:
    assert 'COPY [".", "/app/"]' in dockerfile.python("python", None, ["."])


def test_several_globs_in_a_folder_copy_it_once() -> None:
    lines = dockerfile.python("python", None, ["agents/**/*.py", "agents/*.yaml", "*.py"]).splitlines()
    copies = [line for line in lines if line.startswith("COPY [")]
    assert copies == ['COPY ["agents", "/app/agents"]', 'COPY [".", "/app/"]']


def test_packages_installed_for_caraml_are_its_dependencies() -> None:
    project = tomllib.loads((ROOT / "caraml" / "pyproject.toml").read_text())["project"]
    assert [*dockerfile.CARAML_NEEDS] == project["dependencies"]


def test_image_python_needs_no_name() -> None:
    image = Image.python(requirements="requirements.txt", code=["train.py"], base="python:3.11-slim")
    assert image.name == "python"
    assert 'COPY ["train.py", "/app/train.py"]' in (image.dockerfile or "")
