"""The list of packages that the engine gets instead of pip's: the same; anything else goes through."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from symphony.engine import environment
from symphony.engine.tuning import pip_list

LIST = ["-m", "pip", "list", "-v", "--format", "json"]


def python(*words: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """What the engine's host starts."""
    variables = {**os.environ, **environment.for_python(), **more}
    command = [variables["PULUMI_PYTHON_CMD"], *words]
    return subprocess.run(
        command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=60, check=False
    )


def listed(text: str) -> set[tuple[str, str, str]]:
    """What the host reads of it: name, version, and the folder with pulumi-plugin.json."""
    result: list[dict[str, Any]] = json.loads(text)
    return {(each["name"], each["version"], each["location"]) for each in result}


def test_it_lists_what_pip_lists(tmp_path: Path) -> None:
    pip = subprocess.run(
        [sys.executable, *LIST], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    ours = python(*LIST, cwd=tmp_path)
    assert listed(ours.stdout) == listed(pip.stdout)
    assert "pulumi" in {name for name, _, _ in listed(ours.stdout)}


def test_a_package_that_makes_a_plugin_necessary_is_found_where_the_path_says(tmp_path: Path) -> None:
    package(tmp_path / "mine", "pulumi_bucket", "1.2.3")
    package(tmp_path / "mine", "pulumi", "0.0.1")
    result = listed(python(*LIST, cwd=tmp_path, PYTHONPATH=str(tmp_path / "mine")).stdout)
    assert ("pulumi_bucket", "1.2.3", str(tmp_path / "mine")) in result
    assert [version for name, version, _ in result if name == "pulumi"] == ["0.0.1"], "as an import finds it"


def test_what_is_broken_or_gone_is_passed_over(tmp_path: Path) -> None:
    package(tmp_path, "whole", "1")
    package(tmp_path, "nameless", "1", text="Version: 1\n")
    package(tmp_path, "versionless", "1", text="Name: versionless\n\nVersion: 1\n")
    (tmp_path / "empty-1.dist-info").mkdir()
    (tmp_path / "old-2.egg-info").write_text("Name: old\nVersion: 2\n")
    (tmp_path / "a.zip").touch()
    path = [str(tmp_path), str(tmp_path / "gone"), str(tmp_path / "a.zip")]
    assert [each["name"] for each in pip_list.packages(path)] == ["old", "whole"]


def test_anything_else_is_for_the_interpreter(tmp_path: Path) -> None:
    (tmp_path / "a program.py").write_text("import sys; print(sys.executable, sys.argv[1:]); sys.exit(7)")
    done = python("a program.py", "two words", "$HOME", cwd=tmp_path)
    assert done.stdout == f"{sys.executable} ['two words', '$HOME']\n"
    assert done.returncode == 7
    assert json.loads(python(*LIST[:-3], "--format=json", cwd=tmp_path).stdout), "pip's own answer"
    alone = python("-c", "print(7)", cwd=tmp_path, SYMPHONY_PYTHON_CMD="")
    assert (alone.stdout, alone.stderr) == ("7\n", ""), "as the engine does where nothing is said"


def package(folder: Path, name: str, version: str, text: str = "") -> None:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        text or f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nLong.\n"
    )
