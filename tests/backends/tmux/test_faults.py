"""Faults that a user meets through the commands, by their rows in the list of faults; others are in
tests/providers/symphony_tmux and tests/operations.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import Desk, desk_in, wait_for

pytestmark = pytest.mark.thorough

# It listens as soon as the test says so: what comes in between is the fault.
SERVER = """
import os, socket, time
while not os.path.exists("go"):
    time.sleep(0.02)
with socket.create_server((os.environ["SYMPH_WEB_BIND"], int(os.environ["SYMPH_WEB_PORT"]))):
    print("listens", flush=True)
    time.sleep(3600)
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_in(tmp_path) as made:
        yield made


def test_f16_a_port_that_is_taken_after_the_plan_is_named_and_another_is_chosen(desk: Desk) -> None:
    (desk.folder / "server.py").write_text(SERVER)
    desk.write('with Experiment() as e: e.new_process("server", command="python3 server.py").binds("web")')
    desk.symphony("up", "rl", "-y")
    (service,) = desk.symphony("plan", "rl", "--json").json["plan"]["services"]
    with socket.create_server(("127.0.0.1", service["port"])):
        (desk.folder / "go").touch()
        wait_for(lambda: desk.processes("rl")["server"]["state"] == "failed", 10, "the server has failed")
        assert "Address already in use" in desk.symphony("process", "rl").out
        why = desk.symphony("why", "rl", "server", code=None).out
        assert f"exit 1; port {service['port']} is in use by " in why
        assert f", pid {os.getpid()}" in why
        desk.symphony("up", "rl", "-y")
        (other,) = desk.symphony("plan", "rl", "--json").json["plan"]["services"]
        assert other["port"] != service["port"]
        wait_for(lambda: "listens" in desk.symphony("logs", "rl", "-t", "1").out, 10, "the server listens")
    assert desk.processes("rl")["server"]["state"] == "running"
