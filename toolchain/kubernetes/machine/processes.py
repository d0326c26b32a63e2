"""Finds and ends every process of a cluster: those that carry its marker and all that descend from them."""

import contextlib
import time
from pathlib import Path

import psutil

from toolchain.kubernetes.calls import ToolchainError
from toolchain.kubernetes.layout import MARKER

_END_SECONDS = 30.0


def of_cluster(folder: Path) -> list[psutil.Process]:
    """Return the marked processes and their descendants, such as containers; zombies do not count."""
    members: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARKER) == str(folder):
                members[process.pid] = process
                members.update({child.pid: child for child in process.children(recursive=True)})
    return [process for process in members.values() if _runs(process)]


def end_all(folder: Path) -> None:
    """Kill until no process is left; children that a dying process starts are killed in the next round."""
    deadline = time.monotonic() + _END_SECONDS
    while left := of_cluster(folder):
        if time.monotonic() > deadline:
            names = ", ".join(f"{process.pid} {process.name()}" for process in left)
            raise ToolchainError(f"these processes of the cluster do not end: {names}")
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(0.02)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
