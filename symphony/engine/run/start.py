"""Starts the engine and the processes that serve it: the program, the providers; run as a script.

    python -I -S start.py JSON

The keys of JSON are the parameters of `main`. On Linux every process gets SIGKILL when the engine ends,
however it ends. Standard library only, so that it starts within milliseconds.

Without `namespace`, the engine shares the network of the machine. With it, the engine runs in a network
namespace of its own, where no other user of the machine can dial its ports; the program and the providers
stay outside and keep the network. Sockets in a private folder connect the two sides.
"""

import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys
from typing import Any

# Sockets in the folder of a run: the engine dials PROGRAM, the program asks RELAY for a port of the engine.
PROGRAM, RELAY = "program", "relay"
ATTACHED = "PULUMI_DEBUG_PROVIDERS"
# Sent with the socket of the providers: which users may connect to it.
TO_ALL, TO_OWN_USER = b"all", b"own user"
_LOOPBACK = "127.0.0.1"
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_PR_SET_PDEATHSIG = 1


def main(
    folder: str,
    engine: list[str],
    program: dict[str, Any] | None,
    providers: dict[str, Any] | None,
    relay: list[str],
    namespace: bool,
    relays: bool,
) -> None:
    """Start the processes, then become the engine.

    `program` runs the program of the project, `providers` serves dynamic providers; both have a `command`, an
    `environment` and a `folder`. `relay` is the command of socket_relay.py, for a network namespace and for
    a program that would dial the engine through a proxy (`relays`).
    """
    if program is not None:
        # A caller that dials before the program is ready waits instead of being refused.
        _start(program, _listen(f"{folder}/{PROGRAM}"))
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    if providers is not None:
        _start(providers, far)
    is_isolated = namespace and is_possible()
    if is_isolated:
        enter()
    if is_isolated or relays:
        _start({"command": relay, "environment": {}, "folder": "/"}, _listen(f"{folder}/{RELAY}"))
    if providers is not None:
        listener = socket.create_server((_LOOPBACK, 0), backlog=128)
        socket.send_fds(near, [TO_ALL if is_isolated else TO_OWN_USER], [listener.fileno()])
        attached = f"pulumi-python:{listener.getsockname()[1]}"
        os.environ[ATTACHED] = ",".join(filter(None, [attached, os.environ.get(ATTACHED)]))
    try:
        os.execv(engine[0], engine)
    except OSError as error:
        sys.exit(f"pulumi does not start: {error.strerror}")


def is_possible() -> bool:
    """Return whether this machine allows a network namespace; a child process tries it."""
    if sys.platform != "linux":
        return False
    child = os.fork()
    if child == 0:
        try:
            enter()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def enter() -> None:
    """Enter a network with nothing but a loopback; raise OSError if this machine does not allow it."""
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    # Root needs no user namespace, which would hide the processes outside.
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
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))


def end_with_parent() -> None:
    """Make the kernel kill this process when its parent ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)
    return listener


def _start(process: dict[str, Any], stdin: socket.socket) -> None:
    """Start a child of the engine with a socket as its input, and discard its standard output.

    Otherwise its lines would come between the engine's events.
    """
    parent = os.getpid()
    if os.fork() == 0:
        command = process["command"]
        try:
            end_with_parent()
            if os.getppid() != parent:
                os._exit(1)
            os.dup2(stdin.fileno(), 0)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.chdir(process["folder"])
            os.execve(command[0], command, {**os.environ, **process["environment"]})
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(127)


if __name__ == "__main__":
    import json

    main(**json.loads(sys.argv[1]))
