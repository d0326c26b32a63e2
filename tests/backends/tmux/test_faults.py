"""A port that another program takes between two runs of `up`."""

from __future__ import annotations

import os
import socket

import pytest

from tests.sandbox import Sandbox, wait_for

pytestmark = pytest.mark.thorough

# It listens when the test creates a file; before that, another program takes the port.
SERVER = """
import os, socket, time
while not os.path.exists("go"):
    time.sleep(0.02)
with socket.create_server((os.environ["SYMPH_WEB_BIND"], int(os.environ["SYMPH_WEB_PORT"]))):
    print("listens", flush=True)
    time.sleep(3600)
"""


def test_up_names_a_port_taken_by_another_program_and_chooses_a_new_one(sandbox: Sandbox) -> None:
    (sandbox.folder / "server.py").write_text(SERVER)
    sandbox.write('with Experiment() as e: e.new_process("server", command="python3 server.py").binds("web")')
    sandbox.symphony("up", "rl", "-y")
    (service,) = sandbox.symphony("plan", "rl", "--json").json["plan"]["services"]
    with socket.create_server(("127.0.0.1", service["port"])):
        (sandbox.folder / "go").touch()
        wait_for(lambda: sandbox.processes("rl")["server"]["state"] == "waiting", 20, "the server waits")
        assert f"pid {os.getpid()}" in sandbox.symphony("process", "rl").out
        why = sandbox.symphony("why", "rl", "server", code=None).out
        assert f"waiting for port {service['port']} (" in why
        assert f", pid {os.getpid()}" in why
        sandbox.symphony("up", "rl", "-y")
        (other,) = sandbox.symphony("plan", "rl", "--json").json["plan"]["services"]
        assert other["port"] != service["port"]
        wait_for(lambda: "listens" in sandbox.symphony("logs", "rl", "-t", "1").out, 10, "the server listens")
    assert sandbox.processes("rl")["server"]["state"] == "running"
