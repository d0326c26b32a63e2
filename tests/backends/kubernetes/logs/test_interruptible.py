"""Ctrl-C ends a wait for a thread, also where the system gives the signal to another one."""

from __future__ import annotations

import queue
import subprocess
import sys
import time

from symphony.backends.kubernetes.logs.interruptible import take

WAITS = """
import queue, signal, threading, time
from symphony.backends.kubernetes.logs.interruptible import take
other = threading.Thread(target=time.sleep, args=(30,), daemon=True)
other.start()
threading.Timer(1, lambda: signal.pthread_kill(other.ident, signal.SIGINT)).start()
print("waits", flush=True)
try:
    take(queue.SimpleQueue())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_an_interrupt_that_another_thread_was_given_ends_the_wait() -> None:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", WAITS], capture_output=True, text=True, timeout=20, check=False
    )
    assert done.stdout.split() == ["waits", "interrupted"], done.stderr
    assert time.monotonic() - began < 10


def test_what_a_thread_has_said_is_taken_in_order() -> None:
    result: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    for each in (1, None, 2):
        result.put(each)
    assert [take(result) for _ in range(3)] == [1, None, 2]
