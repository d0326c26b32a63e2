"""Commands of several threads at once: few calls, and each thread gets only its own result."""

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


def _at_once(rig: Any, requests: Sequence[Sequence[Sequence[str]]]) -> list[Future[str]]:
    """The result of each, where all wait for a call that is under way."""
    queue = batch._queues["default"]
    with ThreadPoolExecutor(len(requests)) as pool:
        with queue.calling:
            results: list[Future[str]] = []
            for request in requests:
                results.append(pool.submit(batch.run, "default", request))
                rig.until(lambda: len(queue.requests) == len(results))
        return results


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The arguments of each call."""
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
    requests: list[list[tuple[str, ...]]] = [[(*HELLO, f"hello {number}")] for number in range(9)]
    requests[3] = [("kill-pane", "-t", "%99")]
    requests[6] = [("set-option", "-p", "-t", "rl:", "@kept", "yes"), ("kill-pane", "-t", "%98")]
    results = _at_once(rig, requests)
    assert len(calls) == 3
    for number, result in enumerate(results):
        if number in (3, 6):
            with pytest.raises(TmuxError, match=f"can't find pane: %9{9 if number == 3 else 8}"):
                result.result()
        else:
            assert result.result() == f"hello {number}"
    assert not batch._queues["default"].requests


def test_more_than_a_call_holds_goes_in_several(rig: Any, calls: list[Sequence[str]]) -> None:
    rig.session()
    calls.clear()
    long = [str(number) * 3000 for number in range(10)]
    assert [result.result() for result in _at_once(rig, [[(*HELLO, text)] for text in long])] == long
    assert len(calls) == 3


def test_a_silent_server_is_waited_for_once(
    rig: Any, calls: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = rig.session()
    calls.clear()
    monkeypatch.setattr(client, "DEADLINE", 0.5)
    os.kill(outputs["server_pid"], signal.SIGSTOP)
    try:
        for result in _at_once(rig, [[(*HELLO, "hello")]] * 5):
            with pytest.raises(TmuxError, match="is stopped"):
                result.result()
    finally:
        os.kill(outputs["server_pid"], signal.SIGCONT)
    assert len(calls) == 1
