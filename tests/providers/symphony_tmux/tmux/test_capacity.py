"""Too many processes for a tmux server are refused before anything starts, with the limit to raise."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

from symphony_tmux.tmux import client, server_limits


def _problems_of(owner: str, wanted: int) -> list[tuple[str, str]]:
    return list(server_limits.shortages(owner, wanted, client.list_panes("default")))


def test_more_processes_than_the_servers_descriptors_allow_are_refused(rig: Any) -> None:
    outputs = rig.session("a", "b")
    for name in ("a", "b"):
        rig.start(name, "sleep", "100")
    _, hard = resource.prlimit(outputs["server_pid"], resource.RLIMIT_NOFILE)
    limit = server_limits.SPARE + 20
    resource.prlimit(outputs["server_pid"], resource.RLIMIT_NOFILE, (limit, hard))
    try:
        assert _problems_of(rig.owner, 10) == []
        [(what, _)] = _problems_of(rig.owner, 11)
        assert f"{limit} files, enough for 10 of 11" in what
        # Two windows now belong to another experiment, and stay.
        assert "enough for 8 of 10" in _problems_of("proj/other#1", 10)[0][0]
    finally:
        resource.prlimit(outputs["server_pid"], resource.RLIMIT_NOFILE, (hard, hard))


def test_processes_use_no_more_descriptors_than_the_limit_assumes(rig: Any) -> None:
    names = [f"p{i}" for i in range(10)]
    outputs = rig.session(*names)
    for name in names:
        rig.start(name, "sleep", "100")
    used = len(list(Path(f"/proc/{outputs['server_pid']}/fd").iterdir()))
    assert used <= server_limits.SPARE + server_limits.DESCRIPTORS * 10


def test_more_processes_than_the_machine_has_ptys_are_refused(
    rig: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_limits, "TERMINALS", tmp_path)
    assert _problems_of(rig.owner, 3) == []
    (tmp_path / "max").write_text("16\n")
    (tmp_path / "nr").write_text("13\n")
    assert _problems_of(rig.owner, 3) == []
    (tmp_path / "nr").write_text("14\n")
    [(what, remedy)] = _problems_of(rig.owner, 3)
    assert what == "3 processes need a terminal each, and 14 of this machine's 16 are in use"
    assert "kernel.pty.max=19" in remedy
    rig.session("a", "b", "c")
    rig.start("a", "sleep", "100")
    assert _problems_of(rig.owner, 3) == []
