"""Several processes of one role (a batch of agents, shards of the replay), and threads that end with it."""

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterable
from multiprocessing.connection import wait
from typing import Any

from shared.settings import Settings, chosen, parser


def run_role(role: Callable[[Settings, int], None]) -> None:
    """Run a numbered role: one in this process, or `--count` of them in child processes."""
    options = parser()
    options.add_argument("--number", type=int, default=0, help="number of the (first) agent or evaluator")
    options.add_argument(
        "--count", type=int, default=1, help="how many to run, with numbers from --number on"
    )
    given = options.parse_args()
    settings, first = chosen(given), given.number
    if given.count == 1:
        role(settings, first)
    else:
        run_all(role, [(settings, number) for number in range(first, first + given.count)])


def run_all(target: Callable[..., None], arguments: Iterable[tuple[Any, ...]]) -> None:
    """Run `target` once for each tuple in child processes; if one ends, all end, so that all restart."""
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=target, args=each, daemon=True) for each in arguments]
    for child in children:
        child.start()
    wait([child.sentinel for child in children])
    sys.exit(1)


def in_background(target: Callable[..., None], *arguments: Any) -> None:
    """Run `target` in a thread; if it fails, end the process, so that it restarts."""
    threading.excepthook = _end
    threading.Thread(target=target, args=arguments, daemon=True).start()


def _end(failure: threading.ExceptHookArgs) -> None:
    threading.__excepthook__(failure)
    os._exit(1)
