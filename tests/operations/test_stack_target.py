"""Which stacks a project has, by the programs that its dispatcher runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from symphony.operations import stack_target


@pytest.mark.parametrize(
    ("program", "folder"),
    [
        ("from symphony import run_program\nrun_program()", "stacks"),
        ("from symphony import run_program\nrun_program('experiments')", "experiments"),
        ("import symphony\nsymphony.run_program(folder='experiments/rl')", "experiments/rl"),
        ("# run_program('elsewhere')\nimport pathlib", "stacks"),
        ("def f(:", "stacks"),
    ],
)
def test_the_one_program_of_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, folder: str
) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: sandbox\nruntime: python\n")
    (tmp_path / "__main__.py").write_text(program)
    monkeypatch.chdir(tmp_path)
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "rl.py").touch()
    (tmp_path / folder / "_shared.py").touch()
    assert stack_target.of(None).name.stack == "rl"
    assert stack_target.names_here() == ["rl"]
