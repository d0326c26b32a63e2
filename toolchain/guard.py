"""Runs a command, and afterwards ends all its remaining processes: `python -m toolchain.guard COMMAND...`.

This process is the subreaper of its descendants (Linux), so daemons come back to it. The cluster that
test sessions share stays while another session uses it, or when a person brought it up.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from types import FrameType

import psutil

from toolchain.kubernetes import cluster, daemons
from toolchain.kubernetes.calls import ToolchainError, run
from toolchain.kubernetes.layout import MARKER, Layout

PR_SET_CHILD_SUBREAPER = 36
# The time after Ctrl-C in which tests clean up and report; a second Ctrl-C ends them at once.
GRACE = 20
ENDS_WITHIN = 30


class _Killed(Exception):
    """Raised when a signal asks the run to end."""


def main(command: list[str]) -> int:
    """Run the command; return its exit code, or 128 and the number of the signal that ended it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    handled = _handle()
    child = os.posix_spawnp(command[0], command, os.environ, setsigdef=handled)
    try:
        code = _await(child)
    except _Killed as killed:
        code = int(str(killed))
    for number in handled:
        signal.signal(number, signal.SIG_IGN)
    leave_nothing(Layout.default())
    return code


def leave_nothing(shared: Layout) -> None:
    """End other clusters of this run, all descendants of this process, and the cluster of tests if unused."""
    for folder, pid in _clusters().items():
        if folder != str(shared.folder):
            _take_down(folder, pid)
    deadline = time.monotonic() + ENDS_WITHIN
    while (left := _left(shared)) and time.monotonic() < deadline:
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(0.05)
        _reap()
    with contextlib.suppress(ToolchainError, OSError), shared.path("users").open() as users:
        cluster.down_unless_used(shared, users, say=lambda text: None)


def _handle() -> list[int]:
    """Install handlers for the signals that end a run, except those that the caller ignores."""

    def kill(number: int, frame: FrameType | None) -> None:
        raise _Killed(128 + number)

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, kill)
        signal.signal(signal.SIGALRM, kill)
        signal.alarm(GRACE)

    handlers = {signal.SIGINT: interrupt, signal.SIGTERM: kill, signal.SIGHUP: kill}
    handled = [number for number in handlers if signal.getsignal(number) is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, handlers[number])
    return [*handled, signal.SIGALRM]


def _await(child: int) -> int:
    """Reap ended descendants until the command ends."""
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


def _descendants() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _left(shared: Layout) -> list[psutil.Process]:
    below = _descendants()
    kept = {process.pid for process in daemons.of_cluster(shared.folder)} if below else set[int]()
    return [process for process in below if process.pid not in kept]


def _clusters() -> dict[str, int]:
    """Return the folder of each cluster below this process, and one of its processes."""
    clusters: dict[str, int] = {}
    for process in _descendants():
        with contextlib.suppress(psutil.Error, OSError):
            if folder := process.environ().get(MARKER):
                clusters[folder] = process.pid
    return clusters


def _take_down(folder: str, pid: int) -> None:
    """Take a cluster down inside its network namespace, where its links and rules are."""
    down = [sys.executable, "-m", "toolchain.kubernetes", "down", "--folder", folder, "--purge", "--force"]
    with contextlib.suppress(ToolchainError):
        run(["nsenter", f"--net=/proc/{pid}/ns/net", *down], timeout=60)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
