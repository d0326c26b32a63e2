"""Stay, hide or disturb by all means: python hostile_process.py KIND TAG HOME.

TAG is a number of seconds for which no other process of the machine sleeps; all that
this one starts has it in its arguments.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

KIND, TAG, HOME = [*sys.argv[1:], "", "", ""][:3]
BARE: Mapping[str, str] = {}


def sleep(environment: Mapping[str, str] = os.environ) -> None:
    os.execve("/bin/sleep", ["sleep", TAG], environment)


def deaf() -> None:
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)


def leave_daemon(environment: Mapping[str, str] = os.environ) -> None:
    """Leave a grandchild in a session of its own, whose parent is gone."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            sleep(environment)
        os._exit(0)


def tmux(server: str, *words: str) -> list[str]:
    command = ["tmux", "-S", f"{HOME}/tmux/{server}.sock", *words]
    return subprocess.run(command, text=True, capture_output=True, check=False).stdout.split()


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def ignores_signals() -> None:
    deaf()


def unmarked_daemon() -> None:
    deaf()
    leave_daemon(BARE)
    sleep(BARE)


def daemon_only() -> None:
    deaf()
    leave_daemon(BARE)
    time.sleep(1)
    sys.exit(0)


def stopped() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def zombies() -> None:
    for _ in range(50):
        if os.fork() == 0:
            os._exit(0)
    time.sleep(86400)


def runs_away() -> None:
    """Become another process in another session every few moments."""
    deaf()
    while True:
        time.sleep(0.02)
        if os.fork():
            os._exit(0)
        os.setsid()


def brings_it_back() -> None:
    deaf()
    while True:
        if (pid := os.fork()) == 0:
            os.setsid()
            sleep()
        os.waitpid(pid, 0)


def floods() -> None:
    while True:
        write(b"x" * 4095 + b"\n")
        time.sleep(0.002)


def one_long_line() -> None:
    write(b"y" * 5_000_000)


def control_bytes() -> None:
    write(bytes(range(256)) * 100)


def end_marks() -> None:
    for number in range(os.getppid() + 5):
        write(b"\x18\x1b]7777;symphony-end-%d-1\x07" % number)


def resets_terminal() -> None:
    subprocess.run(["stty", "raw", "-echo", "0"], check=False)
    write(b"\x1bc\x1b[?1049h")


def closes_all() -> None:
    os.closerange(0, 256)


def kills_supervisor() -> None:
    # With a cleared environment as well it would not be found any more: SECURITY.md.
    deaf()
    leave_daemon()
    time.sleep(0.5)
    os.kill(os.getppid(), signal.SIGKILL)
    sleep()


def called_like_a_server() -> None:
    Path("/proc/self/comm").write_text("tmux: server")
    deaf()
    leave_daemon(BARE)
    time.sleep(86400)


def own_tmux() -> None:
    tmux("own", "new-session", "-d", f"sleep {TAG}")


def removes_its_folder() -> None:
    shutil.rmtree(f"{HOME}/experiments/rl/processes/removes-its-folder")


def closes_its_window() -> None:
    deaf()
    leave_daemon(BARE)
    panes = tmux("default", "list-panes", "-a", "-F", "#{pane_pid} #{pane_id}")
    tmux("default", "kill-pane", "-t", panes[panes.index(str(os.getppid())) + 1])


KINDS = {
    function.__name__.replace("_", "-"): function
    for function in (
        ignores_signals,
        unmarked_daemon,
        daemon_only,
        stopped,
        zombies,
        runs_away,
        brings_it_back,
        floods,
        one_long_line,
        control_bytes,
        end_marks,
        resets_terminal,
        closes_all,
        kills_supervisor,
        called_like_a_server,
        own_tmux,
        removes_its_folder,
        closes_its_window,
    )
}

if __name__ == "__main__":
    KINDS[KIND]()
    with suppress(OSError):
        sleep()
