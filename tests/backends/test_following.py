"""How long `up` watches the processes of a backend whose files are on this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from symphony.backends import following
from symphony.backends.observe import ProcessStatus

RECORDED: Any = SimpleNamespace(processes={"server": {}, "prepare": {}})
SERVER, CLIENT = ("prepare (completed)",), ("server (ready)",)


def _status(path: str, state: Any, waits_for: tuple[str, ...] = ()) -> ProcessStatus:
    return ProcessStatus(path, state, ready=state == "running", waits_for=waits_for)


def _watched(monkeypatch: pytest.MonkeyPatch, *looks: Sequence[ProcessStatus]) -> int:
    """Return how often `up` sees new statuses in these looks."""
    monkeypatch.setattr(following, "_SETTLED", 0)
    monkeypatch.setattr(following, "_POLL_SECONDS", 0)
    left = list(looks)
    return sum(1 for _ in following.watch(RECORDED, lambda _: [left.pop(0)], patience=1, limit=10))


def test_up_does_not_wait_for_a_process_behind_a_computation(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [
        _status("prepare", "running"),
        _status("server", "waiting", SERVER),
        _status("client", "waiting", CLIENT),
    ]
    assert _watched(monkeypatch, now, now) == 1


def test_up_waits_for_the_start_of_a_process_whose_computation_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepared = _status("prepare", "completed")
    now = [prepared, _status("server", "waiting", SERVER), _status("client", "waiting", CLIENT)]
    then = [prepared, _status("server", "running"), _status("client", "waiting", CLIENT)]
    last = [prepared, _status("server", "running"), _status("client", "running")]
    assert _watched(monkeypatch, now, then, last) == 3


def test_up_waits_in_a_queue_for_its_patience_though_the_expected_start_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "_POLL_SECONDS", 0.01)
    looks = count()

    def moving(_: object) -> Sequence[Sequence[ProcessStatus]]:
        return [[ProcessStatus("server", "waiting", ready=False, why=f"in the queue, about {next(looks)}")]]

    began = time.monotonic()
    statuses = following.watch(RECORDED, moving, patience=0.3, limit=60, queues=lambda _: True)
    assert sum(1 for _ in statuses) > 1
    assert time.monotonic() - began < 30
