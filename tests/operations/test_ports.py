"""A fixed port in use is refused with its owner, before anything starts."""

from __future__ import annotations

import os
import socket

import pytest

from tests.sandbox import Sandbox


@pytest.mark.thorough
def test_a_fixed_port_used_by_another_program_is_refused(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        sandbox.write(
            "with Experiment() as e:"
            f" e.new_process('server', command=['sleep', '3600']).binds({{'web': {port}}})"
        )
        ran = sandbox.symphony("up", "rl", "-y", code=2)
    assert f'cannot have port {port} for "web"' in ran.err
    assert f"pid {os.getpid()}" in ran.err
    assert "choose another" in ran.err
    assert sandbox.trees() == {}
