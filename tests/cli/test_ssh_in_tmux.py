"""`symphony ssh` inside the user's own tmux."""

from __future__ import annotations

import subprocess

import pytest

from tests.sandbox import SYMPHONY, Sandbox
from tests.terminal import terminal


@pytest.mark.thorough
def test_ssh_inside_tmux_switches_the_client_and_does_not_nest(sandbox: Sandbox) -> None:
    sandbox.write("with Experiment() as e: e.new_process('a', cmds=['echo here is a', 'sleep 600'])")
    sandbox.symphony("up", "rl", "-y")
    own = ["tmux", "-S", str(sandbox.home.parent / "own.sock")]
    ours = ["tmux", "-S", str(sandbox.home / "tmux" / "default.sock")]

    def clients(of: list[str]) -> list[str]:
        return sandbox.run([*of, "list-clients", "-F", "#{session_name}"]).out.split()

    shell = [*own, "-f", "/dev/null", "new-session", "-s", "mine", "sh"]
    try:
        with terminal(sandbox, ["env", "-u", "TMUX", *shell]) as person:
            person.shows("[mine]")
            person.type(f"{SYMPHONY} ssh rl a", "Enter")
            person.shows("here is a")
            assert (clients(ours), clients(own)) == (["rl"], [])
            person.type("C-b", "d")
            person.shows("ssh rl a")
            assert clients(own) == ["mine"]
    finally:
        subprocess.run([*own, "kill-server"], check=False, timeout=10)
