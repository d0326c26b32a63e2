"""Measures the CPU, memory, GPUs and connections of processes on this machine, children included."""

import time
from collections import defaultdict
from collections.abc import Collection, Mapping

from symphony.backends.observe import Port, Usage
from symphony_tmux import gpus
from symphony_tmux.listeners import Sockets, sockets_of
from symphony_tmux.processes import process_table
from symphony_tmux.processes.process_table import Stat


def usage(roots: Mapping[str, int]) -> dict[str, Usage]:
    """Return path -> the resources that a process and its children use.

    The root is the supervisor of the process. Its memory does not count; its CPU time does, since it includes
    the time of children that have ended.

    Args:
        roots: path -> the pid of the root.
    """
    members = process_table.stats()
    path_of = _trees(roots, members)
    moment = time.monotonic()
    seconds, memory = dict.fromkeys(roots, 0.0), dict.fromkeys(roots, 0)
    for member in members:
        if path := path_of.get(member.pid):
            seconds[path] += member.seconds
            memory[path] += 0 if member.pid == roots[path] else member.memory
    on_gpus = _on_gpus(path_of)
    return {
        path: Usage(memory=memory[path], gpu=on_gpus.get(path, ""), cpu_time=seconds[path], moment=moment)
        for path in dict.fromkeys(path_of.values())
    }


def _on_gpus(path_of: Mapping[int, str]) -> dict[str, str]:
    """Return path -> `0: 6.2G 97%` for each GPU on which the tree of a process uses memory.

    The percentage is that of the whole GPU, where its driver reports it.
    """
    texts = defaultdict[str, list[str]](list)
    for gpu in gpus.devices():
        used = defaultdict[str, int](int)
        for pid, memory in gpu.programs.items():
            if path := path_of.get(pid):
                used[path] += memory
        use = "" if gpu.utilization is None else f" {gpu.utilization}%"
        for path, memory in used.items():
            texts[path].append(f"{gpu.index}: {memory / (1 << 30):.1f}G{use}")
    return {path: ", ".join(by_gpu) for path, by_gpu in texts.items()}


def ports(roots: Mapping[str, int], wanted: Collection[int]) -> dict[int, Port]:
    """Return port -> who listens there, and which processes have a connection to it.

    It is empty if the system has no /proc.

    Args:
        roots: path -> the pid of the root.
        wanted: The ports.
    """
    if not process_table.HAS_PROC:
        return {}
    sockets, path_of = Sockets(), _trees(roots, process_table.stats())
    # The sockets of these ports as /proc/PID/fd has them: `socket:[12345]`.
    links = {link for port in wanted for link in sockets.listening[port] | sockets.connected[port]}
    holder: dict[str, str] = {}
    for pid, path in path_of.items() if links else ():
        holder |= dict.fromkeys(links.intersection(sockets_of(pid)), path)
    return {
        port: Port(
            next((holder.get(link, "") for link in sockets.listening[port]), None),
            frozenset(holder[link] for link in sockets.connected[port] if link in holder),
        )
        for port in wanted
    }


def _trees(roots: Mapping[str, int], members: Collection[Stat]) -> dict[int, str]:
    """Return the pid of every member of these trees -> the path of its process."""
    living = {member.pid for member in members}
    path_of = {pid: path for path, pid in roots.items() if pid in living}
    children: defaultdict[int, list[int]] = defaultdict(list)
    to_visit = list(path_of)
    for member in members:
        children[member.parent].append(member.pid)
        # A child whose parent has ended stays in the session.
        if member.pid not in path_of and (path := path_of.get(member.session)):
            path_of[member.pid] = path
            to_visit.append(member.pid)
    for pid in to_visit:
        for child in children[pid]:
            if child not in path_of:
                path_of[child] = path_of[pid]
                to_visit.append(child)
    return path_of
