"""The session leases the ports of services; a process gets the leased port."""

from __future__ import annotations

from typing import Any

import pytest

from symphony.errors import UserError
from symphony_tmux import leases
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import sessions, windows

PORT = 23456
SERVICES = {
    "SYMPH_REPLAY_HOST": "127.0.0.1",
    "SYMPH_REPLAY_PORT": str(PORT),
    "SYMPH_REPLAY_ADDR": f"127.0.0.1:{PORT}",
}
OTHER = "proj/other#abcd1234"


def _declared(rig: Any, **more: Any) -> dict[str, Any]:
    return rig.session_inputs("a", services=SERVICES, ports={"replay": float(PORT)}, **more)


@pytest.fixture
def port_taken_by_another(rig: Any) -> None:
    """Let another experiment lease the port after the program looked."""
    del rig
    leases.lease(OTHER, {"x": PORT})


def test_creating_the_session_leases_its_ports_and_keeps_them(rig: Any) -> None:
    leases.lease(rig.owner, {"replay": PORT})
    outputs = rig.session("a", services=SERVICES, ports={"replay": PORT})
    assert outputs["ports"] == {"replay": PORT}
    assert leases.ports_of(rig.owner) == {"replay": PORT}
    assert not sessions.diff(outputs, _declared(rig), Snapshot()).changed


@pytest.mark.usefixtures("port_taken_by_another")
def test_a_process_gets_the_port_leased_in_place_of_a_taken_one(rig: Any) -> None:
    outputs = rig.session("a", services=SERVICES, ports={"replay": PORT})
    port = outputs["ports"]["replay"]
    assert port != PORT
    window = rig.script("a", "echo $SYMPH_REPLAY_PORT $SYMPH_REPLAY_ADDR; sleep 60", services=SERVICES)
    rig.until(lambda: f"{port} 127.0.0.1:{port}".encode() in rig.printed(window))
    assert window["services"]["SYMPH_REPLAY_PORT"] == str(port)
    now = {name: value.replace(str(PORT), str(port)) for name, value in SERVICES.items()}
    again = rig.inputs("a", script=["echo $SYMPH_REPLAY_PORT $SYMPH_REPLAY_ADDR; sleep 60"], services=now)
    assert not windows.diff(window, again, Snapshot()).changed, "the next program finds the leased port"


@pytest.mark.usefixtures("port_taken_by_another")
def test_a_taken_fixed_port_is_refused_and_names_the_other_experiment(rig: Any) -> None:
    with pytest.raises(UserError) as caught:
        rig.session("a", services=SERVICES, ports={"replay": PORT}, fixed_ports=["replay"])
    assert "other" in caught.value.what
    assert leases.ports_of(rig.owner) == {}


def test_restarting_a_process_alone_does_not_change_its_port(rig: Any) -> None:
    """The program proposes another port if another program listens; only a session update changes it."""
    rig.session("a", services=SERVICES, ports={"replay": PORT}, fixed_ports=["replay"])
    proposed = {name: value.replace(str(PORT), "23999") for name, value in SERVICES.items()}
    window = rig.start("a", "sleep", "60", services=proposed)
    assert window["services"] == SERVICES
