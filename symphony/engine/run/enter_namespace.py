"""Starts the engine in a network namespace of its own, and what it needs of the machine outside; a script.

    python -I -S enter_namespace.py JSON

The keys of JSON: `outside`, what is started before, each with `command`, `environment` and `folder`; `relay`,
a command started in the namespace, which gets a socket that listens at `socket` as its standard input;
`command`, the engine; `environment`, what it gets besides; `otherwise`, the engine's command where there are
no namespaces. Standard library only: it is quickly there.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import struct
import sys
from typing import Any

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


def main(given: dict[str, Any]) -> None:
    if not is_possible():
        os.execv(given["otherwise"][0], given["otherwise"])
    for each in given["outside"]:
        _start(each["command"], {**os.environ, **each["environment"]}, each["folder"])
    enter()
    os.environ.update(given["environment"])
    # Whoever dials before the relay is there waits.
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(given["socket"])
        listener.listen(16)
        _start(given["relay"], dict(os.environ), "/", listener.fileno())
    os.execv(given["command"][0], given["command"])


def is_possible() -> bool:
    """Whether this machine lets us; tried in a child, for there is no way back."""
    child = os.fork()
    if child == 0:
        try:
            enter()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def enter() -> None:
    """A network with nothing but a loopback of our own. OSError: not on this machine."""
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    # A user namespace hides the processes outside from us, so root, who needs none, takes none.
    if libc.unshare(_CLONE_NEWNET) != 0:
        if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123 : pathlib is not worth its import here
                file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))


def _start(command: list[str], environment: dict[str, str], folder: str, stdin: int = 0) -> None:
    """A child of the engine; its output is no event of the engine's, nor why that failed."""
    if os.fork() == 0:
        try:
            os.dup2(stdin, 0)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.chdir(folder)
            os.execve(command[0], command, environment)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(127)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
