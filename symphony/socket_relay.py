"""Relays bytes between sockets. As a script, it connects a program with an engine that it cannot dial itself.

    python -I -S socket_relay.py FOLDER

The script runs in the network namespace of the engine, which the program cannot reach, or in the same network
if the proxy of the program's environment would catch its calls. The program asks for a port through the
script's standard input, a socket, and then connects to FOLDER/PORT. Standard library only, so that it starts
within milliseconds.
"""

import contextlib
import os
import socket
import sys
import threading

RELAY = "relay"
_WATCH = b"watch"


def main(folder: str) -> None:
    """Open a socket for every requested port; symphony ends the script with the engine."""
    opened: set[int] = set()
    watchers: list[socket.socket] = []  # kept open: their end tells the program that this process was killed
    with socket.socket(fileno=0) as listener:
        while True:
            asker, _ = listener.accept()
            request = asker.recv(16)
            if request == _WATCH:
                watchers.append(asker)
                continue
            with asker:
                port = int(request)
                if port not in opened:
                    opened.add(port)
                    _start(_serve, _listen(f"{folder}/{port}"), port)
                asker.sendall(b"open")


def relayed_address(folder: str, address: str) -> str:
    """Return the address as it is, or, if the run has a relay, that of a socket of the relay."""
    if not _has_relay(folder):
        return address
    port = address.rpartition(":")[2]
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect(f"{folder}/{RELAY}")
        asked.sendall(port.encode())
        if asked.recv(16) != b"open":
            raise OSError("the engine ended")
    return f"unix:{folder}/{port}"


def end_with_relay(folder: str) -> None:
    """End this process if the relay of the run is killed, after which Pulumi's SDK would wait for ever."""
    if _has_relay(folder):
        _start(_watch, folder)


def join(near: socket.socket, far: socket.socket) -> None:
    """Copy bytes in both directions until both sides have closed theirs."""
    for end in (near, far):
        if end.family == socket.AF_INET:
            # Otherwise the last part of a message waits 40 ms for an acknowledgement.
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    answers = _start(_copy, far, near)
    _copy(near, far)
    answers.join()


def _has_relay(folder: str) -> bool:
    return os.path.exists(f"{folder}/{RELAY}")  # noqa: PTH110 : pathlib is not worth its import here


def _listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)
    return listener


def _serve(listener: socket.socket, port: int) -> None:
    while True:
        _start(_connect, listener.accept()[0], port)


def _watch(folder: str) -> None:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as watcher:
        watcher.connect(f"{folder}/{RELAY}")
        watcher.sendall(_WATCH)
        watcher.recv(1)
    os._exit(1)


def _connect(near: socket.socket, port: int) -> None:
    with near, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as far:
        join(near, far)


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while chunk := source.recv(1 << 16):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _start(run: object, *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=run, args=arguments, daemon=True)  # pyright: ignore[reportArgumentType]
    thread.start()
    return thread


if __name__ == "__main__":
    os.umask(0o077)
    main(sys.argv[1])
