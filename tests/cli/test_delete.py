"""`symphony delete`: asks first, takes everything, says what it took."""

from __future__ import annotations

from tests.desk import SYMPHONY, Desk
from tests.terminal import terminal

PROGRAM = 'with Experiment() as e:\n    for n in "ab": e.new_process(n, command=["sleep", "3600"])'


def test_asks_takes_all_and_works_without_the_project(desk: Desk, tmp_path: object) -> None:
    desk.write(PROGRAM)
    desk.symphony("up", "rl", "-y")
    refused = desk.symphony("delete", "rl", code=2)
    assert "-y" in refused.err
    assert len(desk.trees()) == 2

    with terminal(desk, [str(SYMPHONY), "delete", "rl"]) as screen:
        question = screen.shows("[y/N]")
        assert "2 processes" in question
        screen.type("n", "Enter")
        assert screen.ends() == 1
        assert "Nothing was changed" in screen.screen()
    assert len(desk.trees()) == 2

    done = desk.symphony("d", "rl", "-y", cwd=tmp_path)
    assert "2 processes" in done.out
    assert desk.trees() == {}
    assert desk.servers() == []
    assert list((desk.home / "experiments").glob("*")) == []
    assert desk.symphony("ls", "--json").json == []


def test_of_nothing(desk: Desk) -> None:
    ran = desk.symphony("delete", "rl", "-y", code=2)
    assert len(ran.err.splitlines()) == 1
