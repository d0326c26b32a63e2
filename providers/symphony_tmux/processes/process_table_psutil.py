"""Facts of processes where there is no /proc (macOS), through psutil."""

from __future__ import annotations

import os

import psutil

from symphony_tmux.processes.process_id import Process


def boot_id() -> str:
    return f"boot-{int(psutil.boot_time())}"


def scan() -> list[Process]:
    return [result for pid in psutil.pids() if (result := process(pid)) is not None]


def exists(pid: int) -> bool:
    return psutil.pid_exists(pid)


def name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return ""


def process(pid: int) -> Process | None:
    """The living process of that pid; None for what is gone or a zombie."""
    try:
        each = psutil.Process(pid)
        with each.oneshot():
            status, parent = each.status(), each.ppid()
            start = int(each.create_time() * 1000)
            session = os.getsid(pid)
    except (psutil.Error, OSError):
        return None
    if status in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
        return None
    try:
        marker = each.environ().get("SYMPHONY_ID", "")
    except (psutil.Error, OSError):
        marker = ""
    return Process(pid, start, parent, session, status == psutil.STATUS_STOPPED, marker)
