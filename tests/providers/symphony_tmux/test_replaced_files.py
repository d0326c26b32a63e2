"""A process replaces or damages symphony's files (pipes, links, folders): commands still work."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from symphony import files, paths
from symphony.backends import local_files
from symphony.backends import local_files as sources
from symphony.backends.observe import Recorded
from symphony.backends.tmux import observe as tmux_observe
from symphony.components import code_inputs, secret_env
from symphony.errors import SymphonyError
from symphony.spec.experiment import ExperimentSpec
from symphony_tmux import experiment_folder, leases, names, variables
from symphony_tmux.processes import observe, process_table, record
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import sessions, windows
from tests.sandbox import within


def _without_permissions(place: Path) -> None:
    place.write_text("x")
    place.chmod(0)


def _folder(place: Path) -> None:
    (place / "inner").mkdir(parents=True)
    (place / "inner" / "file").write_text("x")
    (place / "inner").chmod(0)


def _huge(place: Path) -> None:
    place.touch()
    os.truncate(place, 300 << 20)


PLANTS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": _folder,
    "dangling link": lambda place: place.symlink_to("/nowhere/at/all"),
    "link": lambda place: place.symlink_to("/dev/zero"),
    "closed": _without_permissions,
    "huge": _huge,
    "noise": lambda place: place.write_bytes(b"\xff\0{[" * 100),
    "deep": lambda place: place.write_bytes(b'{"x": ' + b"[" * 30_000),
}


def _plant(kind: str, place: Path) -> None:
    for _ in range(10):
        # The supervisor may make its files again meanwhile.
        with suppress(OSError):
            files.remove(place)
            PLANTS[kind](place)
            return
    raise AssertionError(f"{place} cannot be replaced")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.thorough] * (kind == "huge")) for kind in PLANTS]
)
def test_status_update_and_delete_work_after_a_process_replaced_its_files(rig: Any, kind: str) -> None:
    session = rig.session("a", "b")
    key = rig.home / "key"
    key.write_text("x")
    experiment_folder.copy_files(paths.experiment_folder("default", "rl") / "secrets", [str(key)])
    a, b = rig.start("a", "sleep", "100"), rig.start("b", "sleep", "100", secret_env={"S": "x"})
    rig.until(lambda: {process_table.command_name(observe.program(each)) for each in (a, b)} == {"sleep"})
    folder = rig.home / "experiments" / "rl"
    process = names.process_folder("default", "rl", "a")
    for name in ("record.json", "launch.sh", "log", "index", "pipe", "secrets.sh", "failed-lines"):
        _plant(kind, process / name)
    for name in ("owner", "services.sh", "help", "secrets/key", "unknown"):
        _plant(kind, folder / name)
    _plant(kind, rig.home / "tmux" / "other.pid")
    other = rig.home / "experiments" / "other"
    other.mkdir(mode=0o700)
    _plant(kind, other / "owner")
    recorded = Recorded(rig.owner, "rl", {"a": {**rig.inputs("a"), **a}, "b": {**rig.inputs("b"), **b}})
    with within(60):
        assert [status.state for status in tmux_observe.statuses([recorded])[0]] == ["running"] * 2
        tmux_observe.why(recorded, "a", "rl")
        list(tmux_observe.logs(recorded, ["a"]))
        assert [owned.owner for owned in tmux_observe.list_owned()] == [rig.owner]
        leases.lease(rig.owner, {"web": None})
        sessions.repairs(rig.session_inputs("a", "b"), rig.session_inputs("a", "b"), Snapshot())
        windows.repairs(rig.inputs("a", "sleep", "100"), rig.inputs("a", "sleep", "100"), Snapshot())
        sessions.update(session, rig.session_inputs("a", "b"), Snapshot())
        assert experiment_folder.owner_of(folder) == rig.owner
        a = windows.update(a, rig.inputs("a", "sleep", "200"), Snapshot())
        assert (record.read("default", "rl", "a") or {})["digest"] == a["digest"]
        # The update above declared no secrets, so it emptied their folder.
        assert not experiment_folder.are_copied(
            paths.experiment_folder("default", "rl") / "secrets", [str(key)]
        )
        experiment_folder.copy_files(paths.experiment_folder("default", "rl") / "secrets", [str(key)])
        assert (folder / "secrets" / "key").read_text() == "x"
        for name in ("record.json", "log", "owner"):
            _plant(kind, process / name)
        _plant(kind, folder / "owner")
        windows.delete(a, Snapshot())
        sessions.delete(session, Snapshot())
    rig.session_outputs = {}
    assert not rig.living()
    files.remove(other)
    assert not list((rig.home / "experiments").iterdir())


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["pipe", "folder", "dangling link", "closed"])
def test_status_update_and_delete_work_after_a_process_replaced_its_folders(rig: Any, kind: str) -> None:
    rig.session("a")
    folder = names.process_folder("default", "rl", "a")
    for place in (folder, folder.parent, rig.home / "experiments" / "rl"):
        outputs = rig.start("a", "sleep", "100")
        _plant(kind, place)
        with within(30):
            outputs = windows.update(outputs, rig.inputs("a", "sleep", "200"), Snapshot())
            assert record.read("default", "rl", "a") is not None
            windows.delete(outputs, Snapshot())
    _plant(kind, rig.home / "experiments" / "rl")
    sessions.delete(rig.session_outputs, Snapshot())
    assert not rig.living()


def test_a_start_refuses_a_pipe_in_place_of_the_addresses(rig: Any) -> None:
    rig.session("a")
    _plant("pipe", variables.services_file("default", "rl"))
    with pytest.raises(SymphonyError, match="the addresses"):
        rig.start("a", "sleep", "100", services={"SYMPH_WEB_PORT": "7000"})


def test_the_supervisor_does_not_block_on_planted_pipes(rig: Any) -> None:
    rig.session("a")
    plant = 'rm -f "$0"/*; mkfifo "$0/log" "$0/index" "$0/../../../../tmux/x.pid"; exit 1'
    folder = names.process_folder("default", "rl", "a")
    outputs = rig.start("a", "sh", "-c", plant, str(folder), restart_policy="Always")
    rig.until(lambda: (folder / "log").is_file() and b"launch.sh" in rig.printed(outputs))
    windows.delete(outputs, Snapshot())


def test_a_forged_record_makes_symphony_neither_kill_processes_nor_read_files(rig: Any) -> None:
    rig.session("a")
    outputs = rig.start("a", "sleep", "100")
    file = Path(outputs["log"]).with_name("record.json")
    known = json.loads(file.read_bytes())
    stranger = subprocess.Popen(["sleep", "100"])
    try:
        start = int(Path(f"/proc/{stranger.pid}/stat").read_text().rpartition(")")[2].split()[19])
        file.write_text(json.dumps({**known, "pid": stranger.pid, "start_time": start}))
        outputs = windows.update(outputs, rig.inputs("a", "sleep", "200"), Snapshot())
        file.write_text(json.dumps({**known, "pid": stranger.pid, "start_time": start}))
        sessions.delete(rig.session_outputs, Snapshot())
        rig.session_outputs = {}
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
    for wrong in ({"path": "../../x"}, {"pid": "1"}, {"owner": None}, {"launched": "now"}):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({**known, **wrong}))
        assert record.read("default", "rl", "a") is None


def test_pipes_among_user_files_are_reported_and_do_not_block(tmp_path: Path) -> None:
    pipe = tmp_path / "key"
    os.mkfifo(pipe)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("x")
    os.mkfifo(tmp_path / "code" / ".gitignore")
    with within(10):
        spec = ExperimentSpec("rl", secrets=(str(pipe),))
        assert "regular file" in sources.sizes(spec)[1][str(pipe)]
        assert list(local_files.changes("secret", [str(pipe)], {"key": b"x"})) == []
        hidden, _ = secret_env.resolve_values(replace(spec, secret_env=cast("Any", {"S": str(pipe)})))
        assert "regular file" in hidden.secret_env["S"].trouble
        assert "regular file" in code_inputs.files_of([str(pipe)], tmp_path)[str(pipe)].trouble
        assert list(code_inputs.files_of(["code"], tmp_path)["code"].files) == ["code/a.py"]


def test_threads_replace_the_same_folder_by_a_file(rig: Any) -> None:
    """Several windows repair the owner file at once, after a process made a folder of it."""
    place = rig.home / "owner"
    for _ in range(50):
        files.remove(place)
        _folder(place)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: files.replace(place, b"x"), range(8)))
        assert place.read_bytes() == b"x"
        assert not list(rig.home.glob(".owner*"))
