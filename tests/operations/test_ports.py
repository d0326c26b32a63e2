"""Ports with the real engine: a fixed port in use is refused with its owner; chosen ports avoid it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from tests.sandbox import Sandbox


@pytest.fixture
def used_port() -> Iterator[int]:
    """Yield a port on which the test listens; the next port is free."""
    for _ in range(100):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
            try:
                socket.create_server(("127.0.0.1", port + 1)).close()
            except OSError:
                continue
            yield port
            return
    pytest.fail("no two ports in a row are free")


def program_binding(port: int | None) -> str:
    result = "'web'" if port is None else f"{{'web': {port}}}"
    return f'with Experiment() as e: e.new_process("server", command=["sleep", "3600"]).binds({result})'


def test_a_fixed_port_used_by_another_program_is_refused(sandbox: Sandbox, used_port: int) -> None:
    sandbox.write(program_binding(used_port))
    ran = sandbox.symphony("up", "rl", "-y", code=2)
    assert f'cannot have port {used_port} for "web"' in ran.err
    assert f"pid {os.getpid()}" in ran.err
    assert "choose another" in ran.err
    assert sandbox.trees() == {}


@pytest.mark.thorough
def test_a_fixed_port_of_another_experiment_is_refused(sandbox: Sandbox, used_port: int) -> None:
    """The other experiment keeps the port as long as it exists, also while nothing listens on it."""
    free = used_port + 1
    sandbox.write(program_binding(free))
    sandbox.symphony("up", "first", "-y")
    ran = sandbox.symphony("up", "second", "-y", code=2)
    assert f'cannot have port {free} for "web"' in ran.err
    assert "first" in ran.err
    assert set(sandbox.trees()) == {"first/server"}
    sandbox.symphony("delete", "first", "-y")
    sandbox.symphony("up", "second", "-y")
    assert set(sandbox.trees()) == {"second/server"}


@pytest.mark.thorough
def test_a_chosen_port_avoids_ports_in_use(sandbox: Sandbox, used_port: int) -> None:
    sandbox.write(
        program_binding(None).replace(
            "Experiment()", f"Experiment(port_range=({used_port}, {used_port + 1}))"
        )
    )
    sandbox.symphony("up", "rl", "-y")
    (service,) = sandbox.symphony("plan", "rl", "--json").json["plan"]["services"]
    assert service["port"] == used_port + 1
    assert set(sandbox.trees()) == {"rl/server"}
