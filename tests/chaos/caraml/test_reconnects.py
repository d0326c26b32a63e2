"""Acknowledged messages over reconnects. Small here, 5 s; `-m slow` sends 10^6 over 100 reconnects."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def program(source: str, *arguments: object) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def line(process: subprocess.Popen) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


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
