"""A TCP relay to the API server, whose connections a test can break or silence."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml


@contextlib.contextmanager
def relayed(kubeconfig: str, folder: Path) -> Iterator[tuple[str, Callable[[], int]]]:
    """Yield a kubeconfig whose connections pass through this relay, and a function that closes them all."""
    ends: list[socket.socket] = []

    def cut() -> int:
        """Close the connections and return their number."""
        result, ends[:] = list(ends), []
        for each in result:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        return len(result) // 2

    with _kubeconfig_through_relay(kubeconfig, folder, ends, threading.Event()) as file:
        yield file, cut
        cut()


@contextlib.contextmanager
def silenced(kubeconfig: str, folder: Path) -> Iterator[tuple[str, threading.Event]]:
    """Yield a kubeconfig whose connections pass through this relay, and an event that silences them."""
    silence = threading.Event()
    with _kubeconfig_through_relay(kubeconfig, folder, [], silence) as file:
        yield file, silence


@contextlib.contextmanager
def _kubeconfig_through_relay(
    kubeconfig: str, folder: Path, ends: list[socket.socket], silence: threading.Event
) -> Iterator[str]:
    content: dict[str, Any] = yaml.safe_load(Path(kubeconfig).read_text())
    cluster = content["clusters"][0]["cluster"]
    target = urlsplit(cluster["server"])
    place = (target.hostname, target.port or 443)
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_accept, args=(server, place, ends, silence), daemon=True).start()
        cluster |= {
            "server": f"https://127.0.0.1:{server.getsockname()[1]}",
            "tls-server-name": target.hostname,
        }
        file = folder / "relayed.json"
        file.write_text(json.dumps(content))
        yield str(file)


def _accept(server: socket.socket, target: Any, ends: list[socket.socket], silence: threading.Event) -> None:
    while True:
        try:
            near, _ = server.accept()
            far = socket.create_connection(target)
        except OSError:
            return
        ends += (near, far)
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=_pass, args=(source, sink, silence), daemon=True).start()


def _pass(source: socket.socket, sink: socket.socket, silence: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while content := source.recv(65536):
            if not silence.is_set():
                sink.sendall(content)
    if silence.is_set():  # who is silent does not hang up either
        return
    for each in (source, sink):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
