"""The rows about memory: G11, G12, G14 and G15, shared segments and copies; __main__.py prints them."""

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator

import numpy as np

from tests.benchmarks.caraml.roles import growth
from tests.benchmarks.caraml.sides import ALL, Role, free_address, measure
from tests.benchmarks.caraml.table import Goal, Row, a_figure, as_fast, times_the_time

WATCHED = 60 << 20


def copy_time(nbytes: int) -> float:
    source, target = np.ones(nbytes, np.uint8), np.ones(nbytes, np.uint8)
    begin = time.perf_counter()
    for _ in range(20):
        np.copyto(target, source)
    return (time.perf_counter() - begin) / 20


def over_ipc(side: str, o: dict) -> float:
    folder = tempfile.mkdtemp()
    try:
        o = {"address": f"ipc://{folder}/s", **o}
        return measure(side, "hand_over", "take_over", o, timer="producer")
    finally:
        shutil.rmtree(folder)


def g11() -> Iterator[Row]:
    o = {"nbytes": 16 << 20, "count": 40}
    variants = {side: lambda side=side: over_ipc(side, o) for side in ALL}
    goals = (
        times_the_time("of zmq ipc time", 0.65, 0.5),
        as_fast("x orig", 5, 8, "original"),
        as_fast("of memcpy speed", 0.6, 0.8, "memcpy"),
    )
    memcpy = {"memcpy": lambda: copy_time(16 << 20)}
    yield Row("G11", "16 MiB hand-over, reused pool (raw: ipc)", variants | memcpy, goals, "us")


def g12() -> Iterator[Row]:
    goals = (Goal("us", 150, 60, lambda f: statistics.median(f["ours"]) * 1e6, smaller_is_better=True),)
    for nbytes in (1 << 20, 16 << 20):
        o = {"nbytes": nbytes, "in_place": True, "count": 200}
        variants = {side: lambda side=side, o=o: over_ipc(side, o) for side in ("ours", "raw")}
        what = f"{nbytes >> 20} MiB in place (raw: only the token, and touching)"
        yield Row("G12", what, variants, goals, "us")


def g14() -> Iterator[Row]:
    """Two processes and a socket: a copy anywhere, in libzmq too, would be memory of its own."""
    o = {"address": free_address(), "nbytes": WATCHED}
    roles = receiver, sender = Role("ours", "pull_watched", o), Role("ours", "push_watched", o)
    try:
        for role in roles:
            role.ready()
        while receiver.line() != "watching":
            pass
        sender.go()
        sent, received = float(sender.line()), float(receiver.line())
    finally:
        for role in roles:
            role.end()
    goals = (
        a_figure("sender's growth / payload", sent, 0.1, 0.1),
        a_figure("receiver's, beside the message itself", abs(received - 1), 0.1, 0.1),
    )
    yield Row("G14", "push_uncopied of 60 MiB, memory of both ends", {}, goals)


def g15() -> Iterator[Row]:
    """Two processes: what the reader writes is in the writer's array only where there is no copy between."""
    from caraml.inmemory import SharedPool

    pool = SharedPool()
    value = np.ones(WATCHED, np.uint8)
    reader = Role("ours", "look", {"nbytes": WATCHED})
    names: list[str] = []

    def read_by_reader(array: np.ndarray) -> tuple[float, float]:
        """How far the writer and the reader grew."""
        wrote = growth(lambda: names.append(pool.put(array).hex()), WATCHED)
        reader.go(names[-1])
        return wrote, float(reader.line())

    try:
        reader.ready()
        read_by_reader(value)  # from here on the segment's pages are there
        pooled = read_by_reader(value)
        from_value = 1 + sum(pooled) if value[-1] == 1 else sum(pooled)
        buffer = pool.empty(value.shape, value.dtype)
        buffer[:] = 1
        in_place = read_by_reader(buffer)
        from_buffer = sum(in_place) + (buffer[-1] == 1)
    finally:
        reader.end()
    goals = (
        a_figure("pool: copies", from_value, 1.1, 1.1),
        a_figure("in place: copies", from_buffer, 0.1, 0.1),
    )
    yield Row("G15", "shared memory, 60 MiB", {}, goals)
