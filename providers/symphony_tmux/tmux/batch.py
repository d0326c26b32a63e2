"""Says what several threads have for a tmux server in one call, which costs more than what it says."""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from dataclasses import dataclass, field

from symphony_tmux.tmux import client

# A call of tmux holds 16 KiB.
LARGEST = 14_000


@dataclass(eq=False)
class _Order:
    """Commands of one thread, of which the last one, and no other, prints a line."""

    commands: list[str]
    answer: str | client.TmuxError | None = None


@dataclass
class _Queue:
    """What is to be said to one server; who comes while a call is under way goes with the next."""

    calling: threading.Lock = field(default_factory=threading.Lock)
    orders: list[_Order] = field(default_factory=list[_Order])


_queues: defaultdict[str, _Queue] = defaultdict(_Queue)


def run(server: str, commands: list[str]) -> str:
    """The line that the last of these commands prints. TmuxError: the server refused one of these."""
    queue, order = _queues[server], _Order([*commands, ";"])
    queue.orders.append(order)
    try:
        with queue.calling:
            while order.answer is None:
                _call(server, _next(queue))
    finally:
        queue.orders.remove(order)
    if isinstance(order.answer, client.TmuxError):
        raise order.answer
    return order.answer


def _next(queue: _Queue) -> list[_Order]:
    """The first that wait, as many as a call holds, and one at least."""
    waiting = [order for order in queue.orders.copy() if order.answer is None]
    sizes = itertools.accumulate(len(" ".join(order.commands).encode()) + 1 for order in waiting)
    fitting = [order for order, size in zip(waiting, sizes, strict=True) if size <= LARGEST]
    return fitting or waiting[:1]


def _call(server: str, orders: list[_Order]) -> None:
    """The server stops at the first order that it refuses, so those behind it wait for another call."""
    error = None
    try:
        output = client.run(server, [word for order in orders for word in order.commands][:-1])
    except client.TmuxError as refused:
        output, error = refused.output, refused
    lines = output.splitlines()
    for order, line in zip(orders, lines, strict=False):
        order.answer = line
    others = orders[len(lines) :]
    if not others:
        return
    error = error or client.TmuxError("tmux did not answer", remedy=client.AGAIN)
    for order in others if isinstance(error, client.Silent) else others[:1]:
        order.answer = error
