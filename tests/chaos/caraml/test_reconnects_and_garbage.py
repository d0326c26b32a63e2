"""Messages over reconnects, and streams of garbage. Small here, 5 s; `-m slow` runs the whole sizes.

10^6 messages over 100 reconnects take half a minute; 10^6 streams ten minutes on an idle machine, twenty
on one with a load of ten.
"""

import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import caraml

ROOT = Path(__file__).resolve().parents[3]


def program(source: str, *arguments: object) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def line(process: subprocess.Popen) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) * 1024


class Cutter:
    """A TCP forwarder between sender and receiver that cuts every connection when told."""

    SOURCE = """
        import select, signal, socket, sys
        target = sys.argv[1].rpartition(":")[2]
        listener = socket.create_server(("127.0.0.1", 0))
        cut = []
        signal.signal(signal.SIGUSR1, lambda *_: cut.append(1))
        print(listener.getsockname()[1], flush=True)
        pairs = {}
        while True:
            ready, _, _ = select.select([listener, *pairs], [], [], 0.05)
            if cut:
                cut.clear()
                for end in pairs:
                    end.close()
                pairs.clear()
                continue
            for end in ready:
                if end is listener:
                    near = listener.accept()[0]
                    far = socket.create_connection(("127.0.0.1", int(target)))
                    pairs[near], pairs[far] = far, near
                elif end in pairs:
                    other = pairs[end]
                    try:
                        data = end.recv(1 << 16)
                        if not data:
                            raise ConnectionError
                        other.sendall(data)
                    except OSError:
                        for closed in (end, other):
                            pairs.pop(closed, None)
                            closed.close()
    """

    def __init__(self, address: str) -> None:
        self.process = program(self.SOURCE, address)
        self.address = f"tcp://127.0.0.1:{line(self.process)}"

    def cut(self) -> None:
        os.kill(self.process.pid, signal.SIGUSR1)


SIZES = [
    pytest.param(10_000, 10, id="small"),
    pytest.param(1_000_000, 100, id="whole", marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
]


RECEIVE = """
    import sys, zlib, caraml
    if sys.argv[2] == "receiver":
        receiver = caraml.ZmqReceiver(port=0)
        print(receiver.address)
    else:
        receiver = caraml.ZmqReceiver(address=sys.argv[3], bind=False)
    for expected in range(int(sys.argv[1])):
        message = receiver.recv(timeout=60)
        number, check = int.from_bytes(message[:8], "little"), int.from_bytes(message[8:12], "little")
        assert number == expected, (number, expected)
        assert receiver.identifier == number + 1
        assert zlib.crc32(message[12:]) == check
    receiver.close()
    print("all", receiver.duplicates)
"""
SEND = """
    import random, sys, time, zlib, caraml
    if sys.argv[3] == "sender":
        sender = caraml.ZmqSender(port=0, bind=True, timeout=60)
        print(sender.address)
    else:
        sender = caraml.ZmqSender(address=sys.argv[4], timeout=60)
    generator = random.Random(0)
    for number in range(int(sys.argv[1])):
        body = generator.randbytes(generator.randrange(64))
        sender.send(number.to_bytes(8, "little") + zlib.crc32(body).to_bytes(4, "little") + body)
        if number % (int(sys.argv[1]) // int(sys.argv[2])) == 0:
            print(number, flush=True)
            time.sleep(0.15)  # so that every cut is one of its own
    print("closed", sender.close(timeout=60), sender.socket.link.lost)
"""


@pytest.mark.parametrize("binder", ["receiver", "sender"])
@pytest.mark.parametrize(("messages", "reconnects"), SIZES)
def test_nothing_is_lost_or_corrupt_over_reconnects(messages, reconnects, binder):
    """Acknowledged delivery through a wire that is cut again and again: all, in order, once."""
    if binder == "receiver":
        receiver = program(RECEIVE, messages, binder)
        cutter = Cutter(line(receiver))
        sender = program(SEND, messages, reconnects, binder, cutter.address)
    else:
        sender = program(SEND, messages, reconnects, binder)
        cutter = Cutter(line(sender))
        receiver = program(RECEIVE, messages, binder, cutter.address)
    try:
        while not (result := line(sender)).startswith("closed"):
            cutter.cut()
        _, delivered, lost = result.split()
        assert delivered == "True"
        assert int(lost) >= reconnects // 2  # the wire really was cut
        assert line(receiver).split()[0] == "all"
    finally:
        for process in (sender, receiver, cutter.process):
            process.kill()
            process.communicate()


@pytest.mark.parametrize(
    "streams",
    [
        pytest.param(2_000, id="small"),
        pytest.param(1_000_000, id="whole", marks=[pytest.mark.slow, pytest.mark.timeout(3600)]),
    ],
)
def test_streams_of_garbage_deliver_nothing_and_cost_no_memory(streams):
    """Raw TCP: noise, cut greetings, ZMTP/1.0. The honest pusher is still served."""
    puller = program("""
        import caraml
        puller = caraml.ZmqPuller(port=0, deserializer="msgpack")
        print(puller.address)
        while (message := puller.pull()) != "end":
            print("got", message)
        print("ended", puller.rejected)
    """)
    address = line(puller)
    port = int(address.rpartition(":")[2])
    generator = np.random.default_rng(17)
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + b"\x00" + bytes(31)
    before = 0
    try:
        for n in range(streams):
            noise = generator.bytes(int(generator.integers(0, 300)))
            start = (b"", b"\x01\x00", b"\xff" + bytes(8) + b"\x7f", greeting, greeting[: n % 64])[n % 5]
            with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
                try:
                    peer.sendall(start + noise)
                except OSError:
                    continue
            if n == min(500, streams // 2):
                before = resident(puller.pid)
        assert puller.poll() is None
        assert resident(puller.pid) - before < 50 << 20
        with caraml.ZmqPusher(address=address, serializer="msgpack") as pusher:
            pusher.push("end")
            assert line(puller).split() == ["ended", "0"]
        assert puller.wait(30) == 0
    finally:
        puller.kill()
        puller.communicate()
