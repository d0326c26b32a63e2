"""One running experiment, shared by tests that only read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sandbox import Sandbox, sandbox_in, wait_for

# The output of a hostile process: a title, a cleared screen, colours, invalid UTF-8, reversed text.
WILD = r"printf '\033]0;owned\007\033[2J\033[31mred\033[0m\202 \342\200\256back\n'; exit 3"
PROGRAM = f"""
def sh(script):
    return ["sh", "-c", script]
LISTEN = '''
import os, socket, time
server = socket.create_server(("127.0.0.1", int(os.environ["SYMPH_REPLAY_PORT"])))
print("step 1\\\\nstep 2\\\\nstep 3", flush=True)
time.sleep(3600)
'''
with Experiment() as e:
    learner = e.new_process("learner", command=["python3", "-c", LISTEN])
    learner.binds("replay")
    for i in range(2):
        e.new_process("agent-%d" % i, command=sh("echo hello; sleep 3600")).connects("replay")
    group = e.new_process_group("eval")
    group.new_process("agent-0", command=sh("echo evaluating; sleep 3600"))
    e.new_process("wild", command=sh({WILD!r}))
"""


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Yield a sandbox with the experiment `rl`: five processes, of which `wild` has failed."""
    with sandbox_in(tmp_path_factory.mktemp("lab"), "lab") as sandbox:
        sandbox.write(PROGRAM)
        ran = sandbox.symphony("up", "rl", "-y", code=None)
        assert "of 5 running" in ran.out, str(ran)
        wait_for(lambda: sandbox.processes("rl")["wild"]["state"] == "failed", 20, "wild has failed")
        yield sandbox
