"""Joins a network namespace to the machine outside through unix sockets in a private folder; a script.

python -I -S relay.py listen SOCKET    prints a port; who dials it in the namespace reaches SOCKET
python -I -S relay.py dial FOLDER      who asks at FOLDER/doors for a port gets FOLDER/PORT, which reaches it
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

DOORS = "doors"
# Where the engine dials, and where the program is served, perhaps later.
DIALED, PROGRAM = "engine", "program"
_STARTED_WITHIN = 60.0


def listen(path: str) -> None:
    """What the engine takes for a provider."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        _serve(listener, partial(_connect, path))


def dial(folder: str) -> None:
    """Make doors as long as somebody may ask; a port has one door."""
    made: dict[int, socket.socket] = {}
    with _unix_server(f"{folder}/{DOORS}") as asked:
        # The program looks for the doors once it is called.
        _thread(_serve, socket.socket(fileno=0), partial(_connect, f"{folder}/{PROGRAM}"))
        while True:
            asker, _ = asked.accept()
            with asker:
                port = int(asker.recv(16))
                if port not in made:
                    made[port] = _unix_server(f"{folder}/{port}")
                    _thread(
                        _serve, made[port], lambda port=port: socket.create_connection(("127.0.0.1", port))
                    )
                asker.sendall(b"made")


def is_open(folder: str) -> bool:
    """Return whether the engine is in a namespace, which needs doors to it."""
    return os.path.exists(f"{folder}/{DOORS}")  # noqa: PTH110 : a script that must start quickly


def door(folder: str, address: str) -> str:
    """Where what listens at 127.0.0.1:port in the namespace is reached from outside."""
    port = address.rpartition(":")[2]
    with _connect(f"{folder}/{DOORS}") as asked:
        asked.sendall(port.encode())
        if asked.recv(16) != b"made":
            raise OSError("the relay ended")
    return f"unix:{folder}/{port}"


def _connect(path: str) -> socket.socket:
    """A connection to what is perhaps still starting."""
    until = time.monotonic() + _STARTED_WITHIN
    while True:
        made = socket.socket(socket.AF_UNIX)
        try:
            made.connect(path)
            return made
        except OSError:
            made.close()
            if time.monotonic() > until:
                raise
        time.sleep(0.005)


def _unix_server(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(path)
    made.listen(16)
    return made


def _serve(listener: socket.socket, connect: Callable[[], socket.socket]) -> None:
    while True:
        near, _ = listener.accept()
        _thread(_join, near, connect)


def _join(near: socket.socket, connect: Callable[[], socket.socket]) -> None:
    """Copy both ways until both sides have said all."""
    try:
        far = connect()
    except OSError:
        near.close()
        return
    for each in (near, far):
        if each.family == socket.AF_INET:
            # Without it each call of the engine waits 40 ms for an acknowledgement.
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    other = _thread(_copy, far, near)
    _copy(near, far)
    other.join()
    near.close()
    far.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while chunk := source.recv(1 << 16):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        # One side is gone, so the other has nobody to talk to.
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def _thread(run: Callable[..., None], *arguments: object) -> threading.Thread:
    made = threading.Thread(target=run, args=arguments, daemon=True)
    made.start()
    return made


if __name__ == "__main__":
    os.umask(0o077)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # The engine ends plugins with it.
    {"listen": listen, "dial": dial}[sys.argv[1]](sys.argv[2])
