"""Progress of `up`: waiting processes with reasons on a terminal, one line without."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from symphony.backends.observe import ProcessStatus
from symphony.cli.progress import Board
from symphony.operations.up import Progress
from tests.sandbox import Sandbox
from tests.terminal import terminal


def status(path: str, state: str, why: str = "") -> ProcessStatus:
    return ProcessStatus(path, state, ready=state == "running", why=why)  # pyright: ignore[reportArgumentType]


def test_without_a_terminal_waiting_processes_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with Board() as board:
        board.watch([status("a", "running"), status("b", "waiting"), status("c", "waiting")])
        board.watch([status("a", "running"), status("b", "running"), status("c", "waiting")])
    assert capsys.readouterr().out.splitlines() == ["  waiting for 2 of 3 to run"]


def test_a_wait_that_runs_out_is_told_although_its_cause_was_told_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Board() as board:
        for state, why in (("waiting", "for web (ready)"), ("blocked", "web is not ready after 15 s")) * 2:
            board.watch([status("client", state, f"{why}: port 8000: not listening yet")])
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["client", "waiting:"],
        ["client", "blocked:"],
    ]


def test_a_narrow_terminal_cuts_the_note_and_not_the_name() -> None:
    console = Console(width=90, file=io.StringIO())
    board = Board(quiet=True)
    note = f"step 2/3: RUN {'make ' * 20}"
    board.update(Progress("image examples", "working", 0.0, note, 0.5, "20 of 40 MB"))
    console.print(board._drawn())  # pyright: ignore[reportPrivateUsage]
    (line,) = console.file.getvalue().splitlines()  # pyright: ignore[reportAttributeAccessIssue]
    assert all(word in line for word in ("image examples  working", "step 2/3", "…", "20 of 40 MB"))


SCRIPT = """
import time
from tests.cli.test_progress import status
from symphony.cli.progress import Board
from symphony.operations.up import Progress
with Board() as board:
    board.update(Progress("image rl", "working", 0.0, "pushing, 1 of 2 layers", 0.5, "20 of 40 MB"))
    time.sleep(2)
    names = ["agent-%d" % i for i in range(24)]
    why = "ErrImagePull: rl:9\\x1b[2J: not found"
    board.watch([status(n, "running" if n == "agent-0" else "waiting", why) for n in reversed(names)])
    time.sleep(2)
    board.watch([status(n, "waiting" if n == "agent-7" else "running", "not scheduled yet") for n in names])
    time.sleep(2)
print("end")
"""


def test_on_a_terminal_each_waiting_process_has_a_row(sandbox: Sandbox) -> None:
    root = str(Path(__file__).parents[2])
    with terminal(sandbox, [sys.executable, "-c", SCRIPT], rows=24, env={"PYTHONPATH": root}) as seen:
        bar = seen.shows("20 of 40 MB")
        assert "working" in bar
        (row,) = (line.split() for line in bar.splitlines() if "20 of 40 MB" in line)
        assert row[:8] == ["image", "rl", "working", "pushing,", "1", "of", "2", "layers"]
        assert row[8].startswith("━")
        first = seen.shows("1 of 24 are up")
        rows = [line.split() for line in first.splitlines() if "waiting" in line]
        assert [row[0] for row in rows] == [f"agent-{i}" for i in range(1, 17)]
        assert all(row[1:4] == ["waiting", "ErrImagePull:", "rl:9\ufffd[2J:"] for row in rows)
        assert "and 7 more" in first
        then = seen.shows("23 of 24 are up")
        assert [line.split()[0] for line in then.splitlines() if "waiting" in line] == ["agent-7"]
        assert "more" not in then
        assert seen.ends() == 0
        assert "end" in seen.history()
