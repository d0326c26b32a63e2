"""Port leases: experiments never share a port, ports of other programs are avoided, leases last."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from symphony.backends.observe import Recorded
from symphony.backends.tmux import access
from symphony_tmux import leases, listeners

A, B = "proj/a#11111111", "proj/b.gke#11111111"


def test_chosen_ports_are_stable_unique_and_outside_the_ephemeral_range(home: Path) -> None:
    wanted = {f"s{i}": None for i in range(200)}
    first = leases.choose(A, wanted)
    assert first == leases.choose(A, wanted)
    assert len(set(first.ports.values())) == 200
    assert all(20000 <= port < 30000 for port in first.ports.values())
    assert not set(first.ports.values()) & set(listeners.ephemeral())
    assert not (home / "tmux" / "ports.json").exists()


def test_leases_persist_and_other_experiments_skip_them(home: Path) -> None:
    mine = leases.lease(A, {"ps": None, "x": None}).ports
    assert leases.lease(A, {"ps": None, "x": None, "y": None}).ports.items() >= mine.items()
    # Force the other's first choice onto a leased port.
    table = json.loads((home / "tmux" / "ports.json").read_text())
    first = leases.choose(B, {"q": None}).ports["q"]
    table[A]["ports"]["ps"] = first
    (home / "tmux" / "ports.json").write_text(json.dumps(table))
    assert leases.lease(B, {"q": None}).ports["q"] != first
    leases.release(A)
    assert set(leases.all_leases()) == {B}
    leases.release(A)


def test_ports_no_longer_wanted_are_released(home: Path) -> None:
    leases.lease(A, {"ps": None, "x": 21000})
    leases.lease(A, {"ps": None})
    assert "x" not in leases.all_leases()[A]
    assert leases.lease(B, {"x": 21000}).ports == {"x": 21000}


def test_fixed_ports_are_refused_if_taken_and_avoided_by_chosen_ones(home: Path) -> None:
    leases.lease(A, {"ps": 21001})
    result = leases.lease(B, {"ps": 21001, "x": None})
    assert result.refused == {"ps": "port 21001 is leased to experiment a"}
    assert B not in leases.all_leases()
    assert leases.choose(A, {"p": 21001, "q": 21001}).refused == {"q": "port 21001 is also set for service p"}
    chosen = leases.choose(B, {"p": None}).ports["p"]
    again = leases.choose(B, {"p": None, "q": chosen}).ports
    assert again["q"] == chosen
    assert again["p"] != chosen


def test_ports_of_other_programs_are_skipped_or_refused_with_the_pid(home: Path) -> None:
    chosen = leases.lease(A, {"p": None}).ports["p"]
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", chosen))
        stranger.listen()
        assert leases.lease(A, {"p": None}).ports["p"] != chosen
        taken = leases.lease(B, {"p": chosen}).refused["p"]
    assert taken.startswith(f"port {chosen} is in use by ")
    assert taken.endswith(f", pid {os.getpid()}")


def test_a_server_is_named_and_not_its_child_that_has_the_socket_too() -> None:
    """psutil returns any of the processes that have a socket open."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with subprocess.Popen(["sleep", "100"], pass_fds=[server.fileno()]) as child:
            assert listeners.Listeners(A).stranger(port).endswith(f"pid {os.getpid()}")
            child.kill()


def test_a_listener_of_the_experiment_itself_keeps_the_lease(rig: Any) -> None:
    """It is recognized by its marker, its parent, or its record (redis clears its environment)."""
    rig.session("a", "b")
    chosen = leases.lease(rig.owner, {"p": None, "q": None}).ports
    serve = "import socket,sys,time; s=socket.create_server(('127.0.0.1',int(sys.argv[1])))"
    serve += "; print('up',flush=True); time.sleep(100)"
    a = rig.start("a", sys.executable, "-c", serve, str(chosen["p"]))
    b = rig.start("b", "sh", "-c", 'env -i "$0" "$@" & wait', sys.executable, "-c", serve, str(chosen["q"]))
    rig.until(lambda: b"up" in rig.printed(a) and b"up" in rig.printed(b))
    assert leases.lease(rig.owner, {"p": None, "q": None}).ports == chosen
    assert leases.lease(rig.owner, {"p": chosen["p"], "q": None}).ports == chosen
    assert set(leases.choose(B, {"p": chosen["p"]}).refused) == {"p"}


def test_visit_warns_if_no_process_of_the_experiment_listens(home: Path) -> None:
    recorded = Recorded(A, "rl", {})
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert "nothing listens" in access.route(recorded, "web", f"127.0.0.1:{port}").warning
        server.listen()
        assert f"pid {os.getpid()}" in access.route(recorded, "web", f"127.0.0.1:{port}").warning


def test_all_stale_leases_of_a_failed_up_are_released_at_once(home: Path) -> None:
    wanted = {"x": 21004, "y": 21005}
    leases.lease(A, wanted)
    assert leases.choose(B, wanted).refused
    file = home / "tmux" / "ports.json"
    table = json.loads(file.read_text())
    table[A]["time"] = time.time() - 2 * leases.ABANDONED
    file.write_text(json.dumps(table))
    assert leases.lease(B, wanted).ports == wanted
    assert A not in json.loads(file.read_text())


def test_the_lease_of_an_experiment_with_files_is_never_released(rig: Any, home: Path) -> None:
    rig.session("a")
    leases.lease(rig.owner, {"p": 21003})
    file = home / "tmux" / "ports.json"
    table = json.loads(file.read_text())
    table[rig.owner]["time"] = 0
    file.write_text(json.dumps(table))
    assert leases.lease(B, {"p": 21003}).refused == {"p": "port 21003 is leased to experiment rl"}


def test_concurrent_leases_never_share_a_port(home: Path) -> None:
    code = (
        "import sys,json; from symphony_tmux import leases\n"
        "n=sys.argv[1]\n"
        "print(json.dumps([leases.lease(f'p/{n}#1', {'a': None, 'b': None, 'c': 21500}).ports,"
        " leases.lease(f'p/{n}#1', {'a': None, 'b': None}).ports]))"
    )
    run = [
        subprocess.Popen([sys.executable, "-c", code, str(n)], stdout=subprocess.PIPE, text=True)
        for n in range(6)
    ]
    results = [json.loads(child.communicate()[0]) for child in run]
    final = [port for _, second in results for port in second.values()]
    assert len(final) == len(set(final)) == 12


def test_a_lost_or_damaged_lease_table_is_rebuilt_from_experiments(rig: Any) -> None:
    """The files of the experiments name their ports."""
    ports = leases.lease(rig.owner, {"web-1": None, "x": None}).ports
    services = {"SYMPH_WEB_1_PORT": str(ports["web-1"]), "SYMPH_X_PORT": str(ports["x"])}
    rig.session("a", services=services)
    file = rig.home / "tmux" / "ports.json"
    assert file.stat().st_mode & 0o777 == 0o600
    wrong = ("[1]", '{"a": 1}', '{"a": {"ports": [1]}}', '{"a": {"ports": {"x": "y"}, "time": 0}}')
    for content in ("", "{", *wrong, "[" * 100_000):
        file.write_text(content)
        other = leases.lease("p/other#1", {"y": ports["x"]})
        assert "is leased to experiment rl" in other.refused["y"]
        assert leases.lease(rig.owner, {"web-1": None, "x": None}).ports == ports


def test_the_lease_table_is_synced_to_disk_before_it_replaces_the_old_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power failure leaves the old table or the new one, never an empty file."""
    done: list[str] = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (done.append("sync"), sync(descriptor))[1])
    monkeypatch.setattr(Path, "replace", lambda old, new: (done.append(Path(new).name), replace(old, new))[1])
    leases.lease(A, {"p": None})
    assert done == ["sync", "ports.json"]


def test_ports_are_chosen_within_port_range_and_none_is_leased_when_it_runs_out(home: Path) -> None:
    wanted = {"a": None, "b": None, "fixed": 8000}
    leases.lease(A, wanted)
    result = leases.lease(A, wanted, (7000, 7002)).ports
    assert result["fixed"] == 8000
    assert {result["a"], result["b"]} < {7000, 7001, 7002}
    assert leases.lease(A, wanted, (7000, 7002)).ports == result
    assert leases.lease(B, {"x": None}, (7000, 7002)).ports["x"] not in result.values()
    leases.release(B)
    with socket.create_server(("127.0.0.1", 7501)):
        short = leases.lease(B, {"a": None, "b": None, "fixed": 7502}, (7500, 7502))
    assert short.refused == {"b": "no port between 7500 and 7502 is free"}
    assert B not in leases.all_leases()
