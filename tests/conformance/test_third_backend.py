"""A backend that another distribution brings is found, listed and named like our own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conformance.subprocess_backend import DISTRIBUTION
from tests.sandbox import ROOT, sandbox_in

pytestmark = pytest.mark.thorough


def test_it_is_listed_where_it_is_installed(third_environment: Path, tmp_path: Path) -> None:
    with sandbox_in(tmp_path) as sandbox:
        assert "subprocess" not in sandbox.symphony("doctor", code=None).out
        sandbox.program = third_environment
        result = {each["name"]: each for each in sandbox.symphony("doctor", "--json", code=None).json}
        assert result["subprocess (optional)"]["there"]
        assert result["isolated runs (optional)"]["version"] in ("", "tmux, subprocess")
        sandbox.write('with Experiment() as e: e.new_process("a", command=["true"])')
        sandbox.config("rl", backend="subproces")
        output = sandbox.symphony("up", "rl", "-y", code=2).err
        assert "did you mean subprocess?" in output


def test_no_file_of_symphony_knows_it() -> None:
    (package,) = [each.name for each in DISTRIBUTION.iterdir() if (each / "backend.py").is_file()]
    result = subprocess.run(
        ["grep", "-rl", "--include=*.py", package, ROOT / "symphony"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.stdout, result.returncode) == ("", 1)
