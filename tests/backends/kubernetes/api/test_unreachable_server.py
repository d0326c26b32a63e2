"""`process` and `ls` on an unreachable cluster: one error line within 3 seconds, exit code 1."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from symphony.backends.kubernetes import observe
from symphony.backends.kubernetes.api import client as client_module
from symphony.cli import arguments
from symphony.cli import ls as ls_command
from symphony.cli import process as process_command
from symphony.engine.state.file_store import StackName
from symphony.errors import SymphonyError
from symphony.operations import ls
from symphony.operations.stacks import Stack
from tests.backends.kubernetes.cluster.scripted_cluster import recorded
from tests.backends.kubernetes.scripted_api import Api, serving


@dataclass
class Clock:
    """A clock that advances only while a caller waits."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(client_module, "time", fake)
    return fake


@pytest.fixture
def unreachable_api() -> Api:
    """Nothing listens at its address any more."""
    with serving(lambda _: (200, {})) as api:
        pass
    return api


def stack(api: Api, name: str) -> Stack:
    return Stack(StackName("p", name), None, "kubernetes", recorded(api))


def test_statuses_give_up_within_3_seconds(clock: Clock, unreachable_api: Api) -> None:
    (result,) = observe.statuses([recorded(unreachable_api)])
    assert isinstance(result, SymphonyError)
    assert 1 < clock.now < 3


def test_process_reports_an_unreachable_cluster_within_3_seconds(
    clock: Clock, unreachable_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arguments, "experiment", lambda _: stack(unreachable_api, "rl"))
    with pytest.raises(SymphonyError) as error:
        process_command.command("rl")
    assert error.value.what == (
        f"rl: the API server {unreachable_api.url} does not answer: connection refused; 1 process unknown"
    )
    assert error.value.exit_code == 1
    assert clock.now < 3, "it asked twice, and waited once"


@pytest.mark.parametrize("as_json", [False, True])
def test_ls_reports_each_unreachable_cluster_once_and_lists_its_stacks_as_unknown(
    clock: Clock,
    unreachable_api: Api,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    as_json: bool,
) -> None:
    every = [stack(unreachable_api, "many"), stack(unreachable_api, "rl")]
    monkeypatch.setattr(ls.stacks, "every", lambda: every)
    monkeypatch.setattr(ls.stacks, "orphans", lambda _: {})
    assert ls_command.command(as_json=as_json) == 1
    output = capsys.readouterr()
    assert output.err.splitlines() == [
        f"symphony: many, rl: the API server {unreachable_api.url} does not answer: connection refused."
        " Check that the cluster runs and that kubectl reaches it."
    ]
    if not as_json:
        rows = [line.split()[:4] for line in output.out.splitlines()[1:]]
        assert rows == [[name, "kubernetes", "?/1", "unknown"] for name in ("many", "rl")]
    assert clock.now < 3
