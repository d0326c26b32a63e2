"""A script uses libtmux on the windows of an experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sandbox import sandbox_in

PROGRAM = """
with Experiment() as e:
    e.new_process("a", command=["cat"])
    e.new_process_group("g").new_process("b", command=["sleep", "1000"])
"""
SCRIPT = """
import sys
import symphony, symphony.tmux
assert "libtmux" not in sys.modules, "loaded when it is used"
session = symphony.tmux.session("rl")
print(session.session_name, sorted(window.window_name for window in session.windows))
import libtmux
assert isinstance(session, libtmux.Session)
window = symphony.TmuxCluster().session("rl").window("g/b")
assert isinstance(window, libtmux.Window)
print(window.window_name)
session.window("a").active_pane.send_keys("typed")
try:
    session.window("c")
except symphony.UserError as error:
    print(error)
"""


@pytest.mark.thorough
def test_tmux_session_gives_libtmux_session_and_windows(tmp_path: Path) -> None:
    with sandbox_in(tmp_path) as sandbox:
        sandbox.write(PROGRAM)
        sandbox.symphony("up", "rl", "-y")
        seen = sandbox.python(SCRIPT).out.splitlines()
        assert seen[:2] == ["rl ['a', 'g:b', 'symphony']", "g:b"]
        assert seen[2].startswith('no window of rl runs "c"')
        assert "typed" in sandbox.symphony("logs", "rl", "a").out
        sandbox.symphony("delete", "rl", "-y")
