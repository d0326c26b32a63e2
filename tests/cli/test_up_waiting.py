"""The output of `up` while processes start and afterwards, without a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from symphony.backends.observe import ProcessStatus
from symphony.cli import up as command
from symphony.cli.progress import Board
from symphony.engine.errors import Interrupted
from symphony.operations.plan import ProgramOutput
from symphony.operations.up import Ended, Watched

STACK: Any = SimpleNamespace(name=SimpleNamespace(stack="rl"))


def waiting(path: str, why: str) -> ProcessStatus:
    return ProcessStatus(path, "waiting", ready=False, why=why)


def test_each_new_reason_for_waiting_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"a-{number}" for number in range(5)]
    with Board() as board:
        board.watch([waiting(name, "ContainerCreating") for name in names])
        board.watch([waiting(name, "restarting after exit 3: boom") for name in names])
        board.watch([ProcessStatus(name, "running", ready=True) for name in names])
        board.watch([waiting("late", "ErrImagePull: rl:9: not found"), waiting(names[0], "Pending")])
        board.watch([waiting(name, "ImagePullBackOff: rl:9: not found") for name in ("late", *names)])
        board.watch([waiting(name, "CrashLoopBackOff: exit 3: boom") for name in names])
    assert capsys.readouterr().out.splitlines() == [
        "  waiting for 5 of 5 to run",
        "  a-0, a-1, a-2 and 2 more  waiting: restarting after exit 3: boom",
        "  late  waiting: ErrImagePull: rl:9: not found",
    ]


def test_a_reason_shared_by_all_processes_is_one_line_without_logs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "InvalidImageName: REGISTRY/rl:1: invalid reference format"
    ended = Ended("rl", tuple(waiting(f"a-{number}", why) for number in (4, 0, 3, 1, 2)), 3.0)
    monkeypatch.setattr(command, "up", lambda _, **__: iter([ended]))
    assert command._run(STACK, None, ProgramOutput())[1] == 1  # pyright: ignore[reportPrivateUsage]
    assert capsys.readouterr().out.splitlines() == [
        "rl: 0 of 5 running: all wait for REGISTRY/rl:1: invalid reference format, after 3.0 s."
        "   symphony why rl a-0"
    ]


def test_a_long_dependency_chain_shows_only_the_slowest_processes(capsys: pytest.CaptureFixture[str]) -> None:
    running = tuple(ProcessStatus(f"p{number}", "running", ready=True) for number in range(300))
    chain = tuple((f"p{number}", 40.0 - number % 50) for number in range(300))
    command.show_end(Ended("rl", running, 300.0, chain=chain))
    line = capsys.readouterr().out.splitlines()[0]
    assert line.count(" s") == 6
    assert "p0 40 s > ... > p50 40 s" in line


@pytest.mark.parametrize(
    ("whys", "common"),
    [
        (("ErrImagePull: rl:9: not found", "ImagePullBackOff: rl:9: not found"), "wait for rl:9: not found"),
        (("Unschedulable: no node", "Unschedulable: no node"), "wait: Unschedulable: no node"),
        (("ErrImagePull: rl:9: not found", "ErrImagePull: rl:8: not found"), ""),
        (("ErrImagePull: rl:9: not found",), ""),
    ],
)
def test_equal_reasons_of_all_processes_are_combined(whys: tuple[str, ...], common: str) -> None:
    statuses = tuple(waiting(f"a-{number}", why) for number, why in enumerate(whys))
    assert Ended("rl", statuses, 3.0).common == common
    assert Ended("rl", (*statuses, ProcessStatus("b", "running", ready=True)), 3.0).common == ""


def test_ctrl_c_while_waiting_says_that_all_processes_are_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def events(_: object, **__: object) -> Iterator[Watched]:
        yield Watched((waiting("a", "x: y"), ProcessStatus("b", "running", ready=True)))
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "up", events)
    with pytest.raises(Interrupted) as error:
        command._run(STACK, None, ProgramOutput())  # pyright: ignore[reportPrivateUsage]
    assert "1 process not running yet" in error.value.line
    assert error.value.exit_code == 130
