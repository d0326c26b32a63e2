"""Several processes of one role (agents of a batch, shards of the replay), and threads that must not die."""

import multiprocessing
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from multiprocessing.connection import wait
from typing import Any


def run_all(target: Callable[..., None], arguments: Iterable[tuple[Any, ...]]) -> None:
    """Run `target` once a tuple, each in a process; they end together, so that all are started again."""
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=target, args=each, daemon=True) for each in arguments]
    for child in children:
        child.start()
    wait([child.sentinel for child in children])
    sys.exit(1)


def in_background(target: Callable[..., None], *arguments: Any) -> None:
    """Run `target` in a thread; if it fails the process ends, to be started again."""

    def run() -> None:
        try:
            target(*arguments)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    threading.Thread(target=run, daemon=True).start()
