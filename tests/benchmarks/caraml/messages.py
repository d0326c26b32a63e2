"""The rows about messages through sockets: G1 to G10, G13 and G16; __main__.py prints them."""

import statistics
import tempfile
from collections.abc import Callable, Iterator

from tests.benchmarks.caraml.sides import ALL, asks, measure, pushes
from tests.benchmarks.caraml.table import Figures, Goal, Row, as_fast, times_the_time

PICKLE = {"ours": "msgpack", "original": "pickle"}
NONE = {"ours": None, "original": None}
BEATEN = as_fast("x orig", 1, 1.2, "original")


def g1() -> Iterator[Row]:
    o = {"payload": "batch", "count": 400, "serializer": PICKLE, "uncopied": True, "hwm": 16}
    goals = as_fast("x orig", 3.5, 5, "original"), as_fast("of raw", 0.7, 0.9, "raw")
    yield Row("G1", "batch 1.8 MB push_uncopied", _with_safe_copy(o), goals)


def g2() -> Iterator[Row]:
    o = {"payload": "params", "count": 60, "serializer": PICKLE, "uncopied": True, "hwm": 4}
    goals = as_fast("x orig", 5.5, 7, "original"), as_fast("of raw", 0.8, 0.95, "raw")
    yield Row("G2", "params 17 MB push_uncopied", _with_safe_copy(o), goals)


def _with_safe_copy(o: dict) -> dict[str, Callable[[], float]]:
    return pushes(o) | {"safe copy": lambda: measure("ours", "push", "pull", {**o, "uncopied": False})}


def g3() -> Iterator[Row]:
    for name, count, gate, stretch in (("batch", 200, 7, 9), ("params", 30, 9, 12)):
        o = {"payload": name, "count": count, "serializer": PICKLE}
        goals = as_fast("x orig", gate, stretch, "original"), times_the_time("x raw time", 1.35, 1.15)
        yield Row("G3", f"{name} request", asks(o), goals, "us")


def g4() -> Iterator[Row]:
    o = {"payload": "tiny", "count": 100_000, "serializer": PICKLE}
    packed = {"packed": lambda: measure("ours", "push", "pull", {**o, "many": 32})}
    goals = as_fast("x orig", 3, 6, "original"), as_fast("packed x orig", 3, 10, "original", "packed")
    yield Row("G4", "tiny dict push", pushes(o) | packed, goals)


def g5() -> Iterator[Row]:
    o = {"payload": "step", "count": 30_000, "serializer": PICKLE}
    goals = as_fast("x orig", 1.8, 2.6, "original"), as_fast("of raw", 0.6, 0.85, "raw")
    yield Row("G5", "step 28 KB push", pushes(o), goals)


def g6() -> Iterator[Row]:
    o = {"payload": "bytes16", "count": 300_000, "serializer": NONE}
    goals = as_fast("of raw", 0.6, 0.8, "raw"), as_fast("x orig", 6, 9, "original")
    yield Row("G6", "16 B push", pushes(o), goals)


def g7() -> Iterator[Row]:
    o = {"payload": "bytes16", "count": 1_000_000, "serializer": NONE, "many": 64}
    goals = as_fast("x raw one by one", 3, 6, "raw"), as_fast("x orig", 37, 75, "original")
    yield Row("G7", "16 B push_many of 64", pushes(o), goals)


def g8() -> Iterator[Row]:
    def added(figures: Figures) -> float:
        pairs = zip(figures["ours"], figures["raw"], strict=True)
        return statistics.median((ours - raw) * 1e6 for ours, raw in pairs)

    o = {"payload": "bytes16", "count": 10_000, "serializer": NONE, "timeout": 5}
    goals = (Goal("us added", 5, 2, added, smaller_is_better=True),)
    yield Row("G8", "16 B request, deadline and correlation", asks(o), goals, "us")


def g9() -> Iterator[Row]:
    sizes = ("bytes16", 60_000, 12, 30), ("bytes1024", 60_000, 12, 20), ("bytes1048576", 1500, 1.3, 1.7)
    for name, count, gate, stretch in sizes:
        counts = {"ours": count, "original": min(count, 10_000)}
        variants = {
            side: lambda o=o, side=side: measure(side, "send", "receive", o)
            for side, o in ((side, {"payload": name, "count": few}) for side, few in counts.items())
        }
        goals = (as_fast("x orig", gate, stretch, "original"),)
        yield Row("G9", f"acknowledged {name[5:]} B", variants, goals)


def g10() -> Iterator[Row]:
    for subscribers, count in ((1, 200_000), (8, 40_000)):
        o = {"payload": "bytes16", "count": count, "hwm": 0}
        variants = {
            side: lambda side=side, o=o, n=subscribers: measure(side, "publish", "subscribe", o, n)
            for side in ALL
        }
        goals = as_fast("x orig", 5, 8, "original"), as_fast("of raw one frame", 0.65, 0.9, "raw")
        yield Row("G10", f"16 B to {subscribers} subscribers, sum", variants, goals)


def g13() -> Iterator[Row]:
    from caraml.keys import make_keys

    goals = (times_the_time("x raw CURVE time", 1.1, 1.03),)
    with tempfile.TemporaryDirectory() as folder:
        make_keys(folder)
        keyed = {"serializer": NONE, "keys": folder}
        for name, count, hwm in (("bytes1024", 60_000, 1000), ("bytes1048576", 600, 16)):
            o = {"payload": name, "count": count, "hwm": hwm, **keyed}
            yield Row("G13", f"CURVE push {name[5:]} B", pushes(o, ("ours", "raw")), goals)
        o = {"payload": "bytes16", "count": 5_000, "timeout": 5, **keyed}
        yield Row("G13", "CURVE request 16 B", asks(o, ("ours", "raw")), goals, "us")


def g16() -> Iterator[Row]:
    kinds = {None: "bytes16", "str": "text", "json": "json", "pickle": "tiny"}
    sides = ("ours", "original")
    for name, value in [*kinds.items(), ("pickle", "batch"), (None, "bytes1048576")]:
        pushed, asked, hwm = (300, 100, 16) if value in ("batch", "bytes1048576") else (40_000, 4_000, 1000)
        o = {"payload": value, "serializer": dict.fromkeys(sides, name)}
        variants = pushes({**o, "count": pushed, "hwm": hwm}, sides)
        yield Row("G16", f"push {name} {value}", variants, (BEATEN,))
        yield Row("G16", f"request {name} {value}", asks({**o, "count": asked}, sides), (BEATEN,), "us")
