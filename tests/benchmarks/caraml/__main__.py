"""`python -m tests.benchmarks.caraml [ROW ...]`: the table G1-G16, each figure the median of five interleaved
runs.

Ours, raw pyzmq, and caraml 0.10.0 from its package, installed beside by the hash-locked
requirements-bench.txt.
"""

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.benchmarks.caraml.roles import growth

ROOT = Path(__file__).resolve().parents[3]
ROLES = Path(__file__).with_name("roles.py")
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "symphony" / "bench-peers"
RUNS = int(os.environ.get("CARAML_BENCH_RUNS", "5"))
PICKLE = {"ours": "msgpack", "original": "pickle"}
NONE = {"ours": None, "original": None}


def install_peers() -> None:
    if not (CACHE / "caraml-0.10.0.dist-info").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
        requirements = ROOT / "requirements-bench.txt"
        subprocess.run([*command, "--target", str(CACHE), "-r", str(requirements)], check=True)


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


class Role:
    def __init__(self, side: str, role: str, o: dict) -> None:
        paths = {"ours": [str(ROOT)], "raw": [str(ROOT)], "original": [str(CACHE)]}[side]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        self.process = subprocess.Popen(
            [sys.executable, str(ROLES), side, role, json.dumps(o)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=tempfile.gettempdir(),
        )

    def line(self) -> str:
        line = self.process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"{self.process.args} ended with {self.process.wait(5)}")
        return line

    def ready(self) -> None:
        while self.line() != "ready":  # the original prints
            pass

    def go(self, word: str = "") -> None:
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def measure(
    side: str, producer: str, consumer: str, o: dict, consumers: int = 1, timer: str = "consumer"
) -> float:
    """Seconds per message (of all consumers together)."""
    o = {"address": free_address(), **o}
    binds_first = consumer != "subscribe"
    roles = [Role(side, consumer, o) for _ in range(consumers)] if binds_first else []
    try:
        for role in roles:
            role.ready()
        made = Role(side, producer, o)
        roles.append(made)
        made.ready()
        if not binds_first:
            others = [Role(side, consumer, o) for _ in range(consumers)]
            roles += others
            for role in others:
                role.ready()
            time.sleep(0.5)
        made.go()
        if timer == "producer":
            return float(made.line())
        figures = [float(role.line()) for role in roles if role is not made]
        return 1 / sum(1 / figure for figure in figures)
    finally:
        for role in roles:
            role.end()


def interleaved(variants: dict) -> dict:
    """Each variant RUNS times, one after the other in every run: {name: [figures]}."""
    figures: dict = {name: [] for name in variants}
    for _ in range(RUNS):
        for name, call in variants.items():
            figures[name].append(call())
    return figures


def ratio(figures: dict, base: str, name: str = "ours") -> float:
    """How many times as fast as the base: the median of the runs' own ratios."""
    return statistics.median(b / f for b, f in zip(figures[base], figures[name], strict=True))


TABLE: list[tuple[str, str, str, str, str, str]] = []
CHECKS: list[tuple[str, str, bool, bool]] = []


def shown(seconds: float, unit: str) -> str:
    if unit == "us":
        return f"{seconds * 1e6:,.1f} us"
    return f"{1 / seconds:,.0f}/s"


def report(row: str, what: str, figures: dict, unit: str, *goals: tuple) -> None:
    """goals: (label, value, gate, stretch, smaller is better)."""
    medians = {name: shown(statistics.median(values), unit) for name, values in figures.items()}
    texts, marks = [], []
    for label, value, gate, stretch, smaller in goals:
        good, better = (value <= gate, value <= stretch) if smaller else (value >= gate, value >= stretch)
        texts.append(f"{label} {value:.2f} (gate {gate:g}, stretch {stretch:g})")
        marks.append("stretch" if better else "gate" if good else "MISS")
        CHECKS.append((row, label, good, better))
    others = " ".join(
        f"{name} {text}" for name, text in medians.items() if name not in ("ours", "raw", "original")
    )
    cells = [medians.get(name, "-") for name in ("ours", "raw", "original")]
    line = (
        row,
        what + (f" [{others}]" if others else ""),
        *cells,
        "; ".join(texts) + " -> " + ", ".join(marks),
    )
    TABLE.append(line)
    print("| " + " | ".join(line) + " |", flush=True)


def pushes(o: dict, sides=("ours", "raw", "original")) -> dict:
    return {side: lambda side=side: measure(side, "push", "pull", o) for side in sides}


def asks(o: dict, sides=("ours", "raw", "original")) -> dict:
    return {side: lambda side=side: measure(side, "ask", "serve", o, timer="producer") for side in sides}


def g1() -> None:
    o = {"payload": "batch", "count": 400, "serializer": PICKLE, "uncopied": True, "hwm": 16}
    variants = pushes(o)
    variants["safe copy"] = lambda: measure("ours", "push", "pull", {**o, "uncopied": False})
    f = interleaved(variants)
    report(
        "G1",
        "batch 1.8 MB push_uncopied",
        f,
        "rate",
        ("x orig", ratio(f, "original"), 3.5, 5, False),
        ("of raw", ratio(f, "raw"), 0.7, 0.9, False),
    )


def g2() -> None:
    o = {"payload": "params", "count": 60, "serializer": PICKLE, "uncopied": True, "hwm": 4}
    variants = pushes(o)
    variants["safe copy"] = lambda: measure("ours", "push", "pull", {**o, "uncopied": False})
    f = interleaved(variants)
    report(
        "G2",
        "params 17 MB push_uncopied",
        f,
        "rate",
        ("x orig", ratio(f, "original"), 5.5, 7, False),
        ("of raw", ratio(f, "raw"), 0.8, 0.95, False),
    )


def g3() -> None:
    for name, count, gate, stretch in (("batch", 200, 7, 9), ("params", 30, 9, 12)):
        f = interleaved(asks({"payload": name, "count": count, "serializer": PICKLE}))
        report(
            "G3",
            f"{name} request",
            f,
            "us",
            ("x orig", ratio(f, "original"), gate, stretch, False),
            ("x raw time", 1 / ratio(f, "raw"), 1.35, 1.15, True),
        )


def g4() -> None:
    o = {"payload": "tiny", "count": 100_000, "serializer": PICKLE}
    variants = pushes(o)
    variants["packed"] = lambda: measure("ours", "push", "pull", {**o, "many": 32})
    f = interleaved(variants)
    report(
        "G4",
        "tiny dict push",
        f,
        "rate",
        ("x orig", ratio(f, "original"), 3, 6, False),
        ("packed x orig", ratio(f, "original", "packed"), 3, 10, False),
    )


def g5() -> None:
    f = interleaved(pushes({"payload": "step", "count": 30_000, "serializer": PICKLE}))
    report(
        "G5",
        "step 28 KB push",
        f,
        "rate",
        ("x orig", ratio(f, "original"), 1.8, 2.6, False),
        ("of raw", ratio(f, "raw"), 0.6, 0.85, False),
    )


def g6() -> None:
    f = interleaved(pushes({"payload": "bytes16", "count": 300_000, "serializer": NONE}))
    report(
        "G6",
        "16 B push",
        f,
        "rate",
        ("of raw", ratio(f, "raw"), 0.6, 0.8, False),
        ("x orig", ratio(f, "original"), 6, 9, False),
    )


def g7() -> None:
    o = {"payload": "bytes16", "count": 1_000_000, "serializer": NONE, "many": 64}
    f = interleaved(pushes(o))
    report(
        "G7",
        "16 B push_many of 64",
        f,
        "rate",
        ("x raw one by one", ratio(f, "raw"), 3, 6, False),
        ("x orig", ratio(f, "original"), 37, 75, False),
    )


def g8() -> None:
    o = {"payload": "bytes16", "count": 10_000, "serializer": NONE, "timeout": 5}
    f = interleaved(asks(o))
    added = statistics.median((ours - raw) * 1e6 for ours, raw in zip(f["ours"], f["raw"], strict=True))
    report("G8", "16 B request, deadline and correlation", f, "us", ("us added", added, 5, 2, True))


def g9() -> None:
    for name, count, gate, stretch in (
        ("bytes16", 60_000, 12, 30),
        ("bytes1024", 60_000, 12, 20),
        ("bytes1048576", 1500, 1.3, 1.7),
    ):
        o = {"payload": name, "count": count}
        few = {**o, "count": min(count, 10_000)}
        f = interleaved(
            {
                "ours": lambda o=o: measure("ours", "send", "receive", o),
                "original": lambda few=few: measure("original", "send", "receive", few),
            }
        )
        report(
            "G9",
            f"acknowledged {name[5:]} B",
            f,
            "rate",
            ("x orig", ratio(f, "original"), gate, stretch, False),
        )


def g10() -> None:
    for subscribers, count in ((1, 200_000), (8, 40_000)):
        o = {"payload": "bytes16", "count": count, "hwm": 0}
        f = interleaved(
            {
                side: lambda side=side, o=o, n=subscribers: measure(side, "publish", "subscribe", o, n)
                for side in ("ours", "raw", "original")
            }
        )
        report(
            "G10",
            f"16 B to {subscribers} subscribers, sum",
            f,
            "rate",
            ("x orig", ratio(f, "original"), 5, 8, False),
            ("of raw one frame", ratio(f, "raw"), 0.65, 0.9, False),
        )


def copy_time(nbytes: int) -> float:
    source, target = np.ones(nbytes, np.uint8), np.ones(nbytes, np.uint8)
    begin = time.perf_counter()
    for _ in range(20):
        np.copyto(target, source)
    return (time.perf_counter() - begin) / 20


def g11() -> None:
    o = {"nbytes": 16 << 20, "count": 40}

    def over(side: str, more: dict) -> float:
        folder = tempfile.mkdtemp()
        try:
            return measure(
                side,
                "hand_over",
                "take_over",
                {"address": f"ipc://{folder}/s", **o, **more},
                timer="producer",
            )
        finally:
            shutil.rmtree(folder)

    f = interleaved(
        {
            "ours": lambda: over("ours", {}),
            "raw": lambda: over("raw", {}),
            "original": lambda: over("original", {}),
            "memcpy": lambda: copy_time(16 << 20),
        }
    )
    report(
        "G11",
        "16 MiB hand-over, reused pool (raw: ipc)",
        f,
        "us",
        ("of zmq ipc time", 1 / ratio(f, "raw"), 0.65, 0.5, True),
        ("x orig", ratio(f, "original"), 5, 8, False),
        ("of memcpy speed", ratio(f, "memcpy"), 0.6, 0.8, False),
    )
    for nbytes in (1 << 20, 16 << 20):
        more = {"nbytes": nbytes, "in_place": True, "count": 200}
        f = interleaved({side: lambda side=side, more=more: over(side, more) for side in ("ours", "raw")})
        report(
            "G12",
            f"{nbytes >> 20} MiB in place (raw: only the token, and touching)",
            f,
            "us",
            ("us", statistics.median(f["ours"]) * 1e6, 150, 60, True),
        )


def g13() -> None:
    from caraml.keys import make_keys

    with tempfile.TemporaryDirectory() as folder:
        make_keys(folder)
        for name, count in (("bytes1024", 60_000), ("bytes1048576", 600)):
            o = {
                "payload": name,
                "count": count,
                "serializer": NONE,
                "keys": folder,
                "hwm": 1000 if count > 1000 else 16,
            }
            f = interleaved(pushes(o, ("ours", "raw")))
            report(
                "G13",
                f"CURVE push {name[5:]} B",
                f,
                "rate",
                ("x raw CURVE time", 1 / ratio(f, "raw"), 1.1, 1.03, True),
            )
        f = interleaved(
            asks(
                {"payload": "bytes16", "count": 5_000, "serializer": NONE, "keys": folder, "timeout": 5},
                ("ours", "raw"),
            )
        )
        report(
            "G13", "CURVE request 16 B", f, "us", ("x raw CURVE time", 1 / ratio(f, "raw"), 1.1, 1.03, True)
        )


WATCHED = 64 << 20


def g14() -> None:
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
    goals = [
        ("sender's growth / payload", sent, 0.1, 0.1, True),
        ("receiver's, beside the message itself", abs(received - 1), 0.1, 0.1, True),
    ]
    report("G14", "push_uncopied of 64 MiB, memory of both ends", {}, "us", *goals)


def g15() -> None:
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
    goals = [("pool: copies", from_value, 1.1, 1.1, True), ("in place: copies", from_buffer, 0.1, 0.1, True)]
    report("G15", "shared memory, 64 MiB", {}, "us", *goals)


def g16() -> None:
    kinds = {None: "bytes16", "str": "text", "json": "json", "pickle": "tiny"}
    for name, value in [*kinds.items(), ("pickle", "batch"), (None, "bytes1048576")]:
        both = {"ours": name, "original": name}
        large = value in ("batch", "bytes1048576")
        o = {
            "payload": value,
            "count": 300 if large else 40_000,
            "serializer": both,
            "hwm": 16 if large else 1000,
        }
        f = interleaved(pushes(o, ("ours", "original")))
        report("G16", f"push {name} {value}", f, "rate", ("x orig", ratio(f, "original"), 1, 1.2, False))
        o = {"payload": value, "count": 100 if large else 4_000, "serializer": both}
        f = interleaved(asks(o, ("ours", "original")))
        report("G16", f"request {name} {value}", f, "us", ("x orig", ratio(f, "original"), 1, 1.2, False))


ROWS = {f.__name__: f for f in (g1, g2, g3, g4, g5, g6, g7, g8, g9, g10, g11, g13, g14, g15, g16)}


def main(rows: list[str] | None = None) -> int:
    install_peers()
    wanted = [name.lower() for name in rows or ROWS]
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; median of {RUNS}\n")
    print("| row | what | ours | raw pyzmq | caraml 0.10.0 | goals |\n|---|---|---|---|---|---|")
    for name in wanted:
        ROWS["g11" if name == "g12" else name]()
    gates = sum(good for _, _, good, _ in CHECKS)
    stretches = sum(better for _, _, _, better in CHECKS)
    print(f"\n{gates} of {len(CHECKS)} gates, {stretches} stretch goals; load {os.getloadavg()[0]:.1f}")
    return 0 if gates == len(CHECKS) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
