"""Finds free ports on the node where it runs: `python -I -S free_ports.py FIRST LAST START STEP PORT...`

It runs as a step of its own and imports nothing of symphony. PORT is one to keep if it is free, or 0;
it prints a port for each, in their order. It looks at those from FIRST to LAST, beginning at START and
STEP apart.
"""

import socket
import sys


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
            probe.listen()
        except OSError:
            return False
    return True


def main() -> None:
    first, last, start, step, *kept = map(int, sys.argv[1:])
    many, at = last - first + 1, start
    ports: list[int] = []
    for port in kept:
        for _ in range(many):
            if port and port not in ports and is_free(port):
                break
            port = first + at % many
            at += step
        ports.append(port)
    print(*ports)  # noqa: T201 : the supervisor reads it


if __name__ == "__main__":
    main()
