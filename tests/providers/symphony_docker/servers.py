"""A Docker engine and registries for one test, which it may fill, stop, protect or observe."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from symphony_docker import context
from tests.sandbox import wait_for
from toolchain.kubernetes.calls import succeeds

_BEFORE_A_CUT = 100_000
USER, PASSWORD = "me", "canary-6"
# The password as hashed by `htpasswd -B`.
_LOGIN = f"{USER}:$2b$04$7ktGujCVnSar0xQNRvyACOhGMgaJM0m5nFKUXr5..SQjJyXXiVvda\n"
_HELPER = """#!/bin/sh
echo "$1" >>{log}
read host
printf '{{"ServerURL": "%s", "Username": "me", "Secret": "%s"}}' "$host" "$(cat {secret})"
"""


def inputs(folder: Path, repository: str, tag: str = "one", **more: Any) -> dict[str, Any]:
    """Return the provider's inputs for the image of a folder."""
    parts = context.parts(context.read(context.Source(str(folder))), {})
    return {
        "name": "rl",
        "repository": repository,
        "tag": tag,
        "identity": context.identity(parts),
        "context": str(folder),
        "dockerfile": "Dockerfile",
        "owner": "test",
        **more,
    }


def credential_helper(folder: Path, password: str = PASSWORD) -> Path:
    """Install the Docker credential helper `canary`; return the file in which it records its requests."""
    folder.mkdir(parents=True, exist_ok=True)
    secret, log, program = folder / "secret", folder / "log", folder / "docker-credential-canary"
    secret.write_text(password)
    program.write_text(_HELPER.format(secret=secret, log=log))
    program.chmod(0o755)
    return log


@contextmanager
def registry(folder: Path, *, login: bool = False, deletes: bool = True) -> Generator[str]:
    """Yield the host:port of a registry on loopback; with `login`, only one user may use it."""
    folder.mkdir(parents=True, exist_ok=True)
    host = f"127.0.0.1:{_free_port()}"
    settings: dict[str, Any] = {
        "version": "0.1",
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}, "delete": {"enabled": deletes}},
        "http": {"addr": host},
    }
    if login:
        (folder / "users").write_text(_LOGIN)
        settings["auth"] = {"htpasswd": {"realm": "test", "path": str(folder / "users")}}
    (folder / "registry.json").write_text(json.dumps(settings))
    with _running(["docker-registry", "serve", str(folder / "registry.json")], folder / "log"):
        wait_for(lambda: _serves(host), 60, "the registry", pause=0.1)
        yield host


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _serves(host: str) -> bool:
    connection = http.client.HTTPConnection(host, timeout=5)
    try:
        connection.request("GET", "/v2/")
        return connection.getresponse().status in (200, 401)
    except OSError:
        return False
    finally:
        connection.close()


class Gate:
    """A proxy of a registry that records requests and answers some of them itself.

    refuses: the start of `VERB /path` -> the status of the answer. stuck: starts of requests that get no
    answer until they are removed from here. cuts: how many of the next uploads of layers break off midway.
    """

    def __init__(self, registry_host: str) -> None:
        self.requests: list[str] = []
        self.refuses: dict[str, int] = {}
        self.stuck: tuple[str, ...] = ()
        self.cuts = 0
        self._to = registry_host
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except OSError:
                    self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                del format, args

            def _handle(self) -> None:
                gate.forward(self)

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _handle

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Gate:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stuck = ()
        self._server.shutdown()
        self._server.server_close()

    def asked(self, verb: str) -> list[str]:
        """Return the paths of the requests with this verb."""
        return [each.partition(" ")[2] for each in self.requests if each.startswith(f"{verb} ")]

    def forward(self, request: BaseHTTPRequestHandler) -> None:
        line = f"{request.command} {request.path}"
        self.requests.append(line)
        if request.command == "PATCH" and self.cuts:
            self.cuts -= 1
            request.rfile.read(_BEFORE_A_CUT)
            raise ConnectionResetError
        body = b"".join(_body(request))
        while any(line.startswith(each) for each in self.stuck):
            time.sleep(0.05)
        if status := next((code for start, code in self.refuses.items() if line.startswith(start)), 0):
            return _answer(request, status, {}, b'{"errors": [{"code": "DENIED", "message": "denied"}]}')
        connection = http.client.HTTPConnection(self._to, timeout=60)
        try:
            headers = {name: value for name, value in request.headers.items() if name != "Transfer-Encoding"}
            connection.request(
                request.command, request.path, body, headers | {"Content-Length": str(len(body))}
            )
            answer = connection.getresponse()
            _answer(request, answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()


def _body(request: BaseHTTPRequestHandler) -> Iterator[bytes]:
    if request.headers.get("Transfer-Encoding") != "chunked":
        yield request.rfile.read(int(request.headers.get("Content-Length") or 0))
        return
    while size := int(request.rfile.readline(), 16):
        yield request.rfile.read(size)
        request.rfile.readline()
    request.rfile.readline()


def _answer(request: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str], body: bytes) -> None:
    request.send_response_only(status)
    length = headers.get("Content-Length", "0") if request.command == "HEAD" else str(len(body))
    for name, value in headers.items():
        if name not in ("Content-Length", "Transfer-Encoding", "Connection"):
            request.send_header(name, value)
    request.send_header("Content-Length", length)
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)


@contextmanager
def engine(megabytes: int) -> Generator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a second Docker engine without network, with its images on a disk of a few megabytes.

    Yield the address of its socket, and its process, which the block may end.
    """
    # The path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="engine-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        host, disk = f"unix://{folder}/d.sock", folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", disk], check=True)
        # In its own network namespace, or it would remove the bridge of another engine; all its processes
        # end with the namespace.
        words = [
            "unshare",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "dockerd",
            f"--host={host}",
        ]
        words += [f"--data-root={disk}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
        words += ["--iptables=false", "--log-level=error"]
        try:
            with _running(words, folder / "log") as process:
                answers = ["docker", "--host", host, "version"]
                wait_for(lambda: succeeds(answers, timeout=10), 120, "the engine", pause=0.2)
                yield host, process
                process.kill()
        finally:
            subprocess.run(["umount", "--lazy", disk], check=True)


@contextmanager
def _running(words: list[str], log: Path) -> Generator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
