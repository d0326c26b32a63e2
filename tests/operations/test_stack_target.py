"""Which stacks a project has, by the programs that its dispatcher runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from symphony.operations import stack_target


def test_the_one_program_of_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: sandbox\nruntime: python\n")
    (tmp_path / "__main__.py").touch()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "rl.py").touch()
    (tmp_path / "stacks" / "_shared.py").touch()
    assert stack_target.select(None).name.stack == "rl"
    assert stack_target.names_here() == ["rl"]
