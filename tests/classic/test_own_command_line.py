"""A command line built with SymphonyParser, typed at a terminal."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.sandbox import sandbox_in
from tests.terminal import shell

PROGRAM = Path(__file__).parent / "programs" / "own_command_line.py"


@pytest.mark.thorough
def test_own_command_line_from_create_to_delete(tmp_path: Path) -> None:
    with sandbox_in(tmp_path) as sandbox:
        (sandbox.folder / "Pulumi.yaml").unlink()
        shutil.copy(PROGRAM, sandbox.folder / "mine.py")
        with shell(sandbox) as typed:
            code, shown = typed.run("python mine.py create one -n 2 --dry-run -- --lr 0.1")
            assert (code, sandbox.trees(), sandbox.stacks()) == (0, {}, set())
            assert "3 to start." in shown
            code, shown = typed.run("python mine.py create one -n 2 -- --lr 0.1 -n 7")
            assert (code, len(sandbox.trees())) == (0, 3)
            assert "agents/agent-0..1" in shown
            assert "started" in shown
            assert typed.run("python mine.py c two")[0] == 0
            # The newest experiment is the current one.
            assert typed.run("python mine.py l agents/agent-0") == (0, "agent 0")
            assert typed.run("python mine.py log one learner") == (0, "learner --lr 0.1 -n 7")
            words = "sh -c 'echo $SYMPHONY_ROLE $0; exit 3' -n"
            assert typed.run(f"python mine.py x one agent-1 -- {words}") == (3, "agent-1 -n")
            # A custom command, which finds an experiment by part of its name.
            code, shown = typed.run("python mine.py lsp o")
            assert (code, "one, two" in shown) == (2, True)
            code, shown = typed.run("python mine.py lsp w")
            assert "processes of two" in shown
            assert [line.split()[:2] for line in shown.splitlines()[-2:]] == [
                # The process does not listen.
                ["learner", "0"],
                ["agents", "agent-0"],
            ]
            typed.begin("python mine.py d two")
            assert "the models are kept" in typed.terminal.shows("[y/N]")
            typed.terminal.type("y", "Enter")
            assert typed.end()[0] == 0
            assert {tree.partition("/")[0] for tree in sandbox.trees()} == {"one"}
            assert typed.run("python mine.py db '/^o.e$/' --force")[0] == 0
            assert sandbox.trees() == {}
            assert typed.run("python mine.py ls")[1].startswith("No experiments.")
