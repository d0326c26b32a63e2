"""The program of the processes in the conformance suite: it prints facts, serves, connects, exits.

Words: say=TEXT, show=VARIABLE, bind=SERVICE, reach=SERVICE, near=SERVICE, secrets, exit=N, signal=N,
count=N (that many lines), chatter=SECONDS between lines. Without exit= or signal= it keeps running.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path


def variable(service, part):
    return os.environ["SYMPH_" + service.upper().replace("-", "_") + "_" + part]


def tell(kind, value):
    sys.stdout.write(kind + " " + json.dumps(value) + "\n")
    sys.stdout.flush()


def bind(service):
    server = socket.create_server((variable(service, "BIND"), int(variable(service, "PORT"))), backlog=200)

    def serve():
        while True:
            connection, _ = server.accept()
            connection.sendall(service.encode())
            connection.close()

    threading.Thread(target=serve, daemon=True).start()


def reach(service):
    host, _, port = variable(service, "ADDR").rpartition(":")
    assert (host, port) == (variable(service, "HOST"), variable(service, "PORT"))
    tell("reached" if answers(host, port, service) else "not reached", service)


def answers(host, port, service):
    for _ in range(300):
        try:
            with socket.create_connection((host, int(port)), timeout=5) as connection:
                answer = connection.makefile().read()
        except OSError:
            answer = ""
        if answer == service:
            return True
        time.sleep(0.1)
    return False


def secrets():
    # Not every backend uses secrets.
    for file in sorted(Path(os.environ.get("SYMPH_SECRETS_DIR", "/nowhere")).glob("*")):
        if file.is_file():
            text = file.read_text()
            tell("secret", [file.name, file.stat().st_mode & 0o777, len(text), sum(map(ord, text))])


def die_by(number):
    """End by a signal. Pid 1 of a container cannot kill itself: it exits as a shell would."""
    if os.getpid() == 1:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            sys.exit(128 + number)
    os.kill(os.getpid(), number)


def main():
    if os.getpid() == 1:
        # Without a handler, the first process of a container ignores the signal.
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    words = [word.partition("=")[::2] for word in sys.argv[1:]]
    tell("services", {name: value for name, value in os.environ.items() if name.startswith("SYMPH_")})
    for kind, value in words:
        if kind == "bind":
            bind(value)
    for kind, value in words:
        if kind == "say":
            tell("said", value)
        elif kind == "show":
            tell("variable", os.environ.get(value))
        elif kind == "reach":
            reach(value)
        elif kind == "near":
            tell("near", [value, answers("127.0.0.1", variable(value, "PORT"), value)])
        elif kind == "secrets":
            secrets()
        elif kind == "count":
            for number in range(int(value)):
                print("line", number, flush=True)
        elif kind == "exit":
            sys.exit(int(value))
        elif kind == "signal":
            die_by(int(value))
    tell("ready", os.getpid())
    for kind, value in words:
        if kind == "chatter":
            number = 0
            while True:
                print("tick", number, flush=True)
                number += 1
                time.sleep(float(value))
    while True:
        signal.pause()


main()
