"""A run of the tests that is killed leaves no tmux server or daemon behind."""

import contextlib
import os
import pty
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.support import processes_with
from tests.sandbox import ROOT, wait_for

# Processes that survive a killed test: a tmux server, and a daemon.
STARTS = """
import subprocess, time
def test_it():
    subprocess.run(["tmux", "-S", "{place}/socket", "-f", "/dev/null", "new-session", "-d", "sleep 1000"])
    subprocess.Popen(["sh", "-c", "setsid sleep 1001 & exec sleep 1002"], start_new_session=True)
    open("{place}/begun", "w").close()
    time.sleep({seconds})
"""
STARTED = 4  # the server, its process, and the two that sleep


class Run:
    """A run of `scripts/test.sh` on its own terminal, with one test that starts processes."""

    def __init__(self, place: Path, seconds: int) -> None:
        self.mark = f"guarded-{place}"
        file = place / "test_it.py"
        file.write_text(STARTS.format(place=place, seconds=seconds))
        words = ["scripts/test.sh", "-c", "pyproject.toml", "--rootdir", str(place), str(file)]
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            os.execvpe(words[0], words, {**os.environ, "MARK": self.mark})
        os.set_blocking(self._terminal, False)
        self._code: int | None = None
        self.shown = ""
        self.wait_for_file(place / "begun")

    def wait_for_file(self, file: Path) -> None:
        wait_for(lambda: file.exists() or self._ended(), 60, f"{file.name}\n{self.shown}")
        assert self._code is None, self.shown

    def type(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def close_terminal(self) -> None:
        os.close(self._terminal)

    def ends(self) -> int:
        """Wait until it has ended, and return its exit code."""
        wait_for(self._ended, 60, "the end of the run")
        assert self._code is not None
        return self._code

    def _ended(self) -> bool:
        with contextlib.suppress(OSError):  # nothing to read, or the reader is gone
            self.shown += os.read(self._terminal, 65536).decode(errors="replace")
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code is not None


@pytest.fixture
def marker(tmp_path: Path) -> Iterator[str]:
    mark = f"guarded-{tmp_path}"
    yield mark
    for pid in processes_with(mark):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["its group terminated", "Ctrl-C", "terminal closed"])
def test_a_killed_test_run_leaves_no_process(way: str, tmp_path: Path, marker: str) -> None:
    run = Run(tmp_path, seconds=1000)
    wait_for(lambda: len(processes_with(marker)) > STARTED, 20, "all is started")
    match way:
        case "its group terminated":  # as `timeout` does
            os.killpg(run.pid, signal.SIGTERM)
        case "Ctrl-C":
            run.type(b"\x03")
        case _:
            run.close_terminal()
    assert run.ends() != 0
    assert processes_with(marker) == []
