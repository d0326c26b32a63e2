"""The control groups in which supervisors run their processes, where the system lets them.

A killed supervisor leaves processes without a parent, and perhaps without a marker: their group has them.
A group is found by its parent, that of the tmux server, and its name, never by what a process wrote down.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from symphony_tmux.processes import process_table
from symphony_tmux.processes.process_table import PROC

PREFIX = "symphony-"


def of_supervisors(supervisors: Iterable[int], server_pid: int) -> list[Path]:
    """Return the groups that the supervisors with these pids made below the group of their tmux server."""
    parents = _parents(server_pid)
    places = (parent / f"{PREFIX}{pid}" for pid in {*supervisors} - {0} for parent in parents)
    return [place for place in places if place.is_dir()]


def members(group: Path) -> list[int]:
    """Return the pids in a group."""
    try:
        return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def kill(group: Path) -> None:
    """Kill every process in a group at once, also those that are being started."""
    with suppress(OSError), (group / "cgroup.kill").open("r+") as file:
        file.write("1")


def remove_empty(server_pid: int) -> None:
    """Remove the groups whose supervisor is dead; one that still has a process stays."""
    for parent in _parents(server_pid):
        for group in parent.glob(f"{PREFIX}*"):
            pid = group.name.removeprefix(PREFIX)
            if pid.isdecimal() and not process_table.exists(int(pid)):
                with suppress(OSError):
                    group.rmdir()


def _parents(server_pid: int) -> list[Path]:
    """Return the groups of the tmux server and of this process, in which its next server would start."""
    mount = _mount()
    groups = {group for pid in (str(server_pid), "self") if (group := _group_of(pid)) is not None}
    return [Path(f"{mount}/{group}") for group in groups] if mount else []


def _group_of(pid: str) -> str | None:
    """Return the path of a process's group below the mount; of one in a supervisor's group the parent."""
    with suppress(OSError):
        found = re.search(r"^0::/(.*)$", (PROC / pid / "cgroup").read_text(), re.MULTILINE)
        return re.sub(rf"(^|/){PREFIX}\d+$", "", found[1]) if found else None
    return None


@cache
def _mount() -> str:
    """Return where the second version of control groups is mounted; empty where it is not."""
    with suppress(OSError):
        mounts = (PROC / "self/mountinfo").read_text()
        found = re.search(r"^\S+ \S+ \S+ / (\S+) .* - cgroup2 ", mounts, re.MULTILINE)
        return found[1] if found else ""
    return ""
