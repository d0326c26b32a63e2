"""Files of a process are private, never behind a planted link, and never outside their folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from symphony.errors import UserError
from symphony.paths import experiment_folder as folder_of
from symphony_tmux import experiment_folder, names
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import sessions, windows


def test_files_are_private_for_any_umask(rig: Any) -> None:
    old = os.umask(0)
    try:
        rig.session("a", "g/b")
        outputs = rig.start("g/b", "sh", "-c", "echo x; umask; sleep 100")
        rig.until(lambda: rig.printed(outputs) == b"x\r\n0000\r\n")
    finally:
        os.umask(old)
    for entry in rig.home.rglob("*"):
        mode = entry.lstat().st_mode & 0o777
        assert mode & 0o077 == 0, (entry, oct(mode))


def test_processes_may_have_the_names_of_symphonys_own_files(rig: Any) -> None:
    """`up` rewrites the files beside the folders of processes."""
    paths = ["secrets", "configs", "owner", "help", "processes", "default"]
    session = rig.session(*paths)
    outputs = [rig.start(path, "echo", path) for path in paths]
    assert {rig.ended(output).state for output in outputs} == {"completed"}
    key = rig.home / "key"
    key.write_text("x")
    for kind in experiment_folder.KINDS:
        home = folder_of("default", "rl") / kind
        experiment_folder.copy_files(home, [str(key)])
        copied = home / "key"
        assert (copied.read_text(), stat.S_IMODE(copied.stat().st_mode)) == ("x", 0o400)
    assert [rig.printed(output).decode().strip() for output in outputs] == paths
    assert {rig.start(path, "echo", path)["attempt"] for path in paths} == {1}
    sessions.delete(session, Snapshot())
    assert not list((rig.home / "experiments").iterdir())


def test_a_planted_link_is_not_followed(rig: Any, tmp_path: Path) -> None:
    rig.session("a")
    target = tmp_path / "target"
    target.write_text("keep")
    folder = names.process_folder("default", "rl", "a")
    folder.mkdir(mode=0o700, parents=True)
    (folder / "launch.sh").symlink_to(target)
    rig.start("a", "sleep", "100")
    assert target.read_text() == "keep"
    # Atomically: a supervisor whose log is missing creates another.
    (folder / "planted").symlink_to(target)
    (folder / "planted").replace(folder / "log")
    rig.start("a", "sleep", "200")
    assert target.read_text() == "keep"
    assert not (folder / "log").is_symlink()


def test_hostile_process_and_session_names_are_refused(rig: Any) -> None:
    for name in ("../x", "-x", "é", "a b", "#(touch x)", "a/b/c", "", "x" * 64, "a;", "a\n", "a.b", "a:b"):
        with pytest.raises(UserError):
            windows.create(rig.inputs(name, "true"), Snapshot())
        with pytest.raises(UserError):
            windows.create({**rig.inputs("a", "true"), "session": name}, Snapshot())
    assert not (rig.home / "tmux").exists()
