"""Measures what the process trees of this machine use."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress

import psutil

from symphony.backends.observe import Usage


def usage(roots: Mapping[str, int]) -> dict[str, Usage]:
    """Return path -> what the tree of a process uses, in one look at the machine.

    The root of a tree is the supervisor of the process. Its memory does not count; its CPU time does, as it
    includes the time of children that have ended.

    Args:
        roots: path -> the pid of its root.
    """
    known = {process.pid: process for process in psutil.process_iter()}
    path_of = {pid: path for path, pid in roots.items() if pid in known}
    children: defaultdict[int, list[int]] = defaultdict(list)
    ahead = list(path_of)
    for pid, process in known.items():
        with suppress(psutil.Error, OSError):
            children[process.ppid()].append(pid)
            # A child whose parent has ended stays in the session.
            if (session := os.getsid(pid)) in path_of and pid not in path_of:
                path_of[pid] = path_of[session]
                ahead.append(pid)
    for pid in ahead:
        for child in children[pid]:
            if child not in path_of:
                path_of[child] = path_of[pid]
                ahead.append(child)
    moment = time.monotonic()
    seconds, memory = dict.fromkeys(roots, 0.0), dict.fromkeys(roots, 0)
    for pid, path in path_of.items():
        with suppress(psutil.Error), known[pid].oneshot():
            seconds[path] += sum(known[pid].cpu_times()[:4])
            memory[path] += 0 if pid == roots[path] else known[pid].memory_info().rss
    return {
        path: Usage(memory=memory[path], cpu_time=seconds[path], moment=moment)
        for path in dict.fromkeys(path_of.values())
    }
