"""The programs of the cluster: starts them in the background, finds and ends them and what they started."""

import contextlib
import http.client
import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from toolchain.kubernetes.calls import ToolchainError
from toolchain.kubernetes.layout import MARKER, Layout
from toolchain.kubernetes.packages import search_path


class Ended(ToolchainError):
    """The daemon ended."""


@dataclass(frozen=True)
class Daemon:
    """A program of the cluster: its command, and a check that it is ready."""

    name: str
    argv: tuple[str, ...]
    ready: Callable[[], bool] = lambda: True


def start(layout: Layout, daemon: Daemon) -> bool:
    """Start the daemon unless it runs; return whether it was started."""
    if running(layout, daemon.name):
        return False
    layout.path("logs").mkdir(exist_ok=True)
    layout.path("run").mkdir(exist_ok=True)
    with layout.log(daemon.name).open("ab") as log:
        child = subprocess.Popen(
            daemon.argv,
            env=_environment(layout),
            cwd=layout.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    with contextlib.suppress(psutil.NoSuchProcess):  # gone already: `await_ready` reports it with its log
        record = {"pid": child.pid, "started": psutil.Process(child.pid).create_time()}
        _record(layout, daemon.name).write_text(json.dumps(record))
    return True


def await_ready(layout: Layout, daemon: Daemon, *, within: float) -> None:
    """Wait until the daemon is ready; raise with the end of its log if it ends or takes too long."""
    deadline = time.monotonic() + within
    while not daemon.ready():
        if not running(layout, daemon.name):
            raise Ended(f"{daemon.name} ended while starting: {last_words(layout, daemon.name)}")
        if time.monotonic() > deadline:
            raise ToolchainError(
                f"{daemon.name} is not ready after {within:g} s: {last_words(layout, daemon.name)}"
            )
        time.sleep(0.05)


def answers(host: str, path: str) -> bool:
    """Return whether the server at host:port answers 200 to a request, without the caller's proxy."""
    connection = http.client.HTTPConnection(host, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def running(layout: Layout, name: str) -> psutil.Process | None:
    """Return the process of the daemon if it is still the one that was started."""
    try:
        record = json.loads(_record(layout, name).read_text())
        process = psutil.Process(record["pid"])
        same = process.create_time() == record["started"] and not _ended(process)
    except (OSError, ValueError, psutil.Error):
        return None
    return process if same else None


def _ended(process: psutil.Process) -> bool:
    """Return whether a process has ended; a zombie with other threads still holds its ports."""
    return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1


def stop(layout: Layout, name: str, *, grace: float) -> None:
    """Terminate the daemon; kill it after the grace period."""
    process = running(layout, name)
    if process is None:
        return
    deadline = time.monotonic() + grace
    with contextlib.suppress(psutil.NoSuchProcess):
        process.terminate()
        while running(layout, name) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.kill()


def last_words(layout: Layout, name: str) -> str:
    """Return the last lines of the daemon's log."""
    try:
        lines = layout.log(name).read_text(errors="replace").splitlines()
    except OSError:
        return "it left no log"
    return " / ".join(line.strip() for line in lines[-3:]) or "its log is empty"


def _environment(layout: Layout) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key.lower().endswith("_proxy")}
    return {
        "PATH": search_path(),
        "HOME": os.environ.get("HOME", "/root"),
        MARKER: str(layout.folder),
        **kept,
    }


def _record(layout: Layout, name: str) -> Path:
    return layout.path("run", f"{name}.json")


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
