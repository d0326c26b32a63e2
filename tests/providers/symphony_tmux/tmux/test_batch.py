"""What threads say to a server at once: in few calls, and each learns of its own commands only."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from symphony_tmux.tmux import batch, client
from symphony_tmux.tmux.client import TmuxError

HELLO = ("display-message", "-p", "-t", "rl:")


def _at_once(rig: Any, orders: Sequence[Sequence[str]]) -> list[Future[str]]:
    """What the server says to each, where all wait for a call that is under way."""
    queue = batch._queues["default"]
    with ThreadPoolExecutor(len(orders)) as pool:
        with queue.calling:
            answers: list[Future[str]] = []
            for order in orders:
                answers.append(pool.submit(batch.run, "default", list(order)))
                rig.until(lambda: len(queue.orders) == len(answers))
        return answers


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """What was said in each call."""
    result: list[Sequence[str]] = []
    run = client.run

    def counted(server: str, arguments: Sequence[str], **options: Any) -> str:
        result.append(arguments)
        return run(server, arguments, **options)

    monkeypatch.setattr(client, "run", counted)
    return result


def test_a_refused_command_is_an_error_of_its_thread_alone(rig: Any, calls: list[Sequence[str]]) -> None:
    rig.session()
    calls.clear()
    said: list[tuple[str, ...]] = [(*HELLO, f"hello {number}") for number in range(9)]
    said[3] = ("kill-pane", "-t", "%99")
    said[6] = ("set-option", "-p", "-t", "rl:", "@kept", "yes", ";", "kill-pane", "-t", "%98")
    answers = _at_once(rig, said)
    assert len(calls) == 3
    for number, answer in enumerate(answers):
        if number in (3, 6):
            with pytest.raises(TmuxError, match=f"can't find pane: %9{9 if number == 3 else 8}"):
                answer.result()
        else:
            assert answer.result() == f"hello {number}"
    assert not batch._queues["default"].orders


def test_more_than_a_call_holds_is_said_in_several(rig: Any, calls: list[Sequence[str]]) -> None:
    rig.session()
    calls.clear()
    long = [str(number) * 3000 for number in range(10)]
    assert [answer.result() for answer in _at_once(rig, [(*HELLO, text) for text in long])] == long
    assert len(calls) == 3


def test_a_silent_server_is_waited_for_once(
    rig: Any, calls: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = rig.session()
    calls.clear()
    monkeypatch.setattr(client, "DEADLINE", 0.5)
    os.kill(outputs["server_pid"], signal.SIGSTOP)
    try:
        answers = _at_once(rig, [(*HELLO, "hello")] * 5)
        for answer in answers:
            with pytest.raises(TmuxError, match="does not answer"):
                answer.result()
    finally:
        os.kill(outputs["server_pid"], signal.SIGCONT)
    assert len(calls) == 1
