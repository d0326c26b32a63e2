"""Sends the commands of several threads to a tmux server in one call: each call starts a client."""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from symphony_tmux.tmux import client

# tmux takes 16 KiB of arguments.
MAX_BYTES = 14_000


@dataclass(eq=False)
class _Request:
    """The commands of one thread; the last one prints a line, and no other does."""

    arguments: list[str]
    result: str | client.TmuxError | None = None


@dataclass
class _Queue:
    """The requests to one server; those that arrive during a call go with the next one."""

    calling: threading.Lock = field(default_factory=threading.Lock)
    requests: list[_Request] = field(default_factory=list[_Request])


_queues: defaultdict[str, _Queue] = defaultdict(_Queue)


def run(server: str, commands: Sequence[Sequence[str]]) -> str:
    """Return the line that the last of these commands prints. TmuxError: the server refused one."""
    queue, request = _queues[server], _Request(client.joined(commands))
    queue.requests.append(request)
    try:
        with queue.calling:
            while request.result is None:
                _call(server, _next(queue))
    finally:
        queue.requests.remove(request)
    if isinstance(request.result, client.TmuxError):
        raise request.result
    return request.result


def _next(queue: _Queue) -> list[_Request]:
    """Return the oldest requests, as many as one call holds, at least one."""
    waiting = [request for request in queue.requests.copy() if request.result is None]
    sizes = itertools.accumulate(len(" ".join(request.arguments).encode()) + 3 for request in waiting)
    fitting = [request for request, size in zip(waiting, sizes, strict=True) if size <= MAX_BYTES]
    return fitting or waiting[:1]


def _call(server: str, requests: list[_Request]) -> None:
    """Call tmux for these requests; it stops at the first that it refuses, the rest stay in the queue."""
    error = None
    try:
        output = client.run(server, client.joined(request.arguments for request in requests))
    except client.TmuxError as refused:
        output, error = refused.output, refused
    lines = output.splitlines()
    for request, line in zip(requests, lines, strict=False):
        request.result = line
    others = requests[len(lines) :]
    if not others:
        return
    error = error or client.TmuxError("tmux did not answer", remedy=client.AGAIN)
    for request in others if isinstance(error, client.Silent) else others[:1]:
        request.result = error
