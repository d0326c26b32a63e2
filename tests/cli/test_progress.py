"""Progress and end of `up`: waiting processes with their reasons, on a terminal and without."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from symphony.backends.observe import ProcessStatus
from symphony.cli import up as command
from symphony.cli.progress import Board
from symphony.engine.errors import Interrupted
from symphony.operations.plan import ProgramOutput
from symphony.operations.up import Ended, Progress, Watched
from tests.sandbox import Sandbox
from tests.terminal import terminal


def status(path: str, state: str, why: str = "") -> ProcessStatus:
    return ProcessStatus(path, state, ready=state == "running", why=why)  # pyright: ignore[reportArgumentType]


def test_each_new_reason_for_waiting_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"a-{number}" for number in range(5)]
    with Board() as board:
        board.watch([status(name, "waiting", "ContainerCreating") for name in names])
        board.watch([status(name, "waiting", "restarting after exit 3: boom") for name in names])
        board.watch([status(name, "running") for name in names])
        board.watch(
            [
                status("late", "waiting", "ErrImagePull: rl:9: not found"),
                status(names[0], "waiting", "Pending"),
            ]
        )
        board.watch(
            [status(name, "waiting", "ImagePullBackOff: rl:9: not found") for name in ("late", *names)]
        )
        board.watch([status(name, "waiting", "CrashLoopBackOff: exit 3: boom") for name in names])
    assert capsys.readouterr().out.splitlines() == [
        "  waiting for 5 of 5 to run",
        "  a-0, a-1, a-2 and 2 more  waiting: restarting after exit 3: boom",
        "  late  waiting: ErrImagePull: rl:9: not found",
    ]


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


STACK: Any = SimpleNamespace(name=SimpleNamespace(stack="rl"))


def test_processes_with_the_same_reason_are_one_line_without_logs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "InvalidImageName: REGISTRY/rl:1: invalid reference format"
    ended = Ended("rl", tuple(status(f"a-{number}", "waiting", why) for number in (4, 0, 3, 1, 2)), 3.0)
    monkeypatch.setattr(command, "up", lambda _, **__: iter([ended]))
    assert command._run(STACK, None, ProgramOutput())[1] == 1  # pyright: ignore[reportPrivateUsage]
    assert capsys.readouterr().out.splitlines() == [
        f"  a-0, a-1, a-2 and 2 more   waiting: {why}   symphony why rl a-0",
        "rl: 0 of 5 running, 5 waiting, in 3.0 s.",
    ]


def test_a_long_dependency_chain_shows_only_the_slowest_processes(capsys: pytest.CaptureFixture[str]) -> None:
    running = tuple(status(f"p{number}", "running") for number in range(300))
    chain = tuple((f"p{number}", 40.0 - number % 50) for number in range(300))
    command.show_end(Ended("rl", running, 300.0, chain=chain))
    line = capsys.readouterr().out.splitlines()[0]
    assert line.count(" s") == 6
    assert "p0 40 s > ... > p50 40 s" in line


def test_ctrl_c_while_waiting_counts_processes_not_running_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    def events(_: object, **__: object) -> Iterator[Watched]:
        yield Watched((status("a", "waiting", "x: y"), status("b", "running")))
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "up", events)
    with pytest.raises(Interrupted) as error:
        command._run(STACK, None, ProgramOutput())  # pyright: ignore[reportPrivateUsage]
    assert "1 process not running yet" in error.value.line
    assert error.value.exit_code == 130
