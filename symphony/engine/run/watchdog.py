"""Ends an engine run whose command died (kill -9, closed terminal); run.py starts this as a script.

Standard library only and started with -I -S: it costs 10 ms beside the start of the engine, not before it.
"""

import os
import select
import signal
import sys
import time

GRACE = 4.0  # seconds until SIGKILL, one fewer than the five within which a run ends
SAVE_AFTER = 2.2  # seconds until all but the engine are killed, so that it saves its state


def watch(session: int, pipes: list[int]) -> None:
    """Wait for `done` on standard input; end the session when the input closes or our parent ends.

    It then reads `pipes`, the output of the engine: an engine that cannot write ends before it has saved.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    parent = os.getppid()
    # The pipe alone is not enough: a child that the caller forked may hold its other end.
    while os.getppid() == parent:
        if select.select([0], [], [], 0.5)[0]:
            if os.read(0, 16).startswith(b"done"):
                return
            break
    end_session(session, pipes)


def end_session(session: int, pipes: list[int]) -> None:
    """Interrupt the leader of a session, then kill all others so that it saves, then kill the rest."""
    began = time.monotonic()
    if _session_of(session) == session and _signal(session, signal.SIGINT):
        _wait_for(session, began + SAVE_AFTER, pipes)
        kill_session(session, spare_leader=True)
        _wait_for(session, began + GRACE, pipes)
    kill_session(session)


def _wait_for(pid: int, until: float, pipes: list[int]) -> None:
    """Wait for the end of a process, and discard its output meanwhile."""
    while time.monotonic() < until and is_running(pid):
        for pipe in select.select(pipes, [], [], 0.05)[0]:
            if not os.read(pipe, 1 << 16):
                pipes.remove(pipe)


def kill_session(session: int, *, spare_leader: bool = False) -> None:
    """Kill every process of a session; the tmux server and what it runs have sessions of their own."""
    not_killed = {os.getpid(), session} if spare_leader else {os.getpid()}
    for pid in _pids():
        if pid not in not_killed and _session_of(pid) == session and is_running(pid):
            _signal(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123 : pathlib is not worth its import here
            return stat.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except FileNotFoundError:
        return not os.path.isdir("/proc/self") and _signal(pid, 0)  # noqa: PTH112
    except OSError:
        return True


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def _pids() -> list[int]:
    if os.path.isdir("/proc/self"):  # noqa: PTH112
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    import subprocess

    listing = subprocess.run(["ps", "-axo", "pid="], capture_output=True, text=True, timeout=10, check=False)
    return [int(word) for word in listing.stdout.split()]


if __name__ == "__main__":
    watch(int(sys.argv[1]), [int(pipe) for pipe in sys.argv[2:]])
