"""`process` and `ls` on an unreachable cluster: one error for each cluster, exit code 1."""

from __future__ import annotations

import pytest

from symphony.cli import arguments
from symphony.cli import ls as ls_command
from symphony.cli import process as process_command
from symphony.engine.state.file_store import StackName
from symphony.errors import SymphonyError
from symphony.operations import ls
from symphony.operations.stacks import Stack
from tests.backends.kubernetes.cluster.scripted_cluster import recorded
from tests.backends.kubernetes.scripted_api import Api, serving


@pytest.fixture
def unreachable_api(monkeypatch: pytest.MonkeyPatch) -> Api:
    """Nothing listens at its address any more."""
    monkeypatch.setattr("symphony.backends.kubernetes.api.client.PATIENCE", 0.1)
    with serving(lambda _: (200, {})) as api:
        pass
    return api


def stack(api: Api, name: str) -> Stack:
    return Stack(StackName("p", name), None, "kubernetes", recorded(api))


def test_process_reports_an_unreachable_cluster(
    unreachable_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arguments, "experiment", lambda _: stack(unreachable_api, "rl"))
    with pytest.raises(SymphonyError) as error:
        process_command.command("rl")
    for words in (f"rl: the API server {unreachable_api.url}", "connection refused", "1 process unknown"):
        assert words in error.value.what
    assert error.value.exit_code == 1


@pytest.mark.parametrize("as_json", [False, True])
def test_ls_reports_each_unreachable_cluster_once_and_lists_its_stacks_as_unknown(
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
    (line,) = output.err.splitlines()
    assert line.startswith(f"symphony: many, rl: the API server {unreachable_api.url} does not answer")
    if not as_json:
        rows = [line.split()[:4] for line in output.out.splitlines()[1:]]
        assert rows == [[name, "kubernetes", "?/1", "unknown"] for name in ("many", "rl")]
