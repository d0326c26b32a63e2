"""Where a program puts its plan: gone afterwards, also when the command that asked for it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from symphony.operations import handed

ASKS = """
import time
from symphony.operations.handed import inbox
with inbox() as box:
    box.file.write_text("secret")
    print(box.file, flush=True)
    time.sleep(60)
"""


def asking() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen([sys.executable, "-c", ASKS], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def old(folder: Path) -> None:
    an_hour_ago = time.time() - 3600
    os.utime(folder, (an_hour_ago, an_hour_ago))


def test_gone_afterwards(own_home: Path) -> None:
    with handed.inbox() as box:
        box.file.write_text("{}")
    assert list(own_home.glob("plan-*")) == []


def test_what_a_killed_command_left_is_swept_and_a_live_ones_stays(own_home: Path) -> None:
    killed, left = asking()
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    living, used = asking()
    nameless = own_home / "plan-of-a-kill-at-once"
    nameless.mkdir()
    try:
        assert left.read_text() == "secret"
        for folder in (left.parent, used.parent, nameless):
            old(folder)
        with handed.inbox():
            assert not left.parent.exists()
            assert not nameless.exists()
            assert used.read_text() == "secret"
    finally:
        living.kill()
        living.wait()
