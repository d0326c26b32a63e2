"""Runs a command in a container, connected with descriptors of this program."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import stat
import termios
import threading
import tty
import uuid
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from symphony.backends.access import CannotStart, Streams
from symphony.backends.kubernetes import pod_status
from symphony.backends.kubernetes.api import channels
from symphony.backends.kubernetes.api.channels import Channels
from symphony.backends.kubernetes.api.client import Client, Refused, Unreachable, path_of
from symphony.backends.kubernetes.api.fields import listing, text
from symphony.errors import SymphonyError

# The first protocol that can close standard input, since Kubernetes 1.30.
_PROTOCOLS = ("v5.channel.k8s.io",)
# A container runtime keeps a command running when its caller is gone; this variable finds the command again.
_MARK = "SYMPHONY_EXEC"
_MARKED = f'{_MARK}=$1; export {_MARK}; shift; exec "$@"'
# Kubernetes discards output on its way when a command ends, and reports success. So after the command the
# shell writes the marker and the exit code to both streams, and ends when this end has read them and stops
# the sleep.
_WAITING = "SYMPHONY_EXEC_WRITTEN"
_WRITTEN = f"""
"$@"; code=$?
printf '\\036%s%03d' "${_MARK}" "$code"; printf '\\036%s%03d' "${_MARK}" "$code" >&2
command -v grep >/dev/null && {_WAITING}=${_MARK} sleep 600 >/dev/null 2>&1 </dev/null
exit $code
"""
# Kubernetes does not report the end of a command that leaves input unread.
_CLOSE_AFTER = 2.0
_END = """
marked() { grep -l "$1" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3; }
for signal in TERM KILL; do
  found=$(marked "$1"); [ "$found" ] || exit 0
  kill -$signal $found 2>/dev/null
  for _ in 1 2 3 4 5 6 7 8 9 10; do [ "$(marked "$1")" ] || exit 0; sleep 0.1; done
done
"""


@dataclass(frozen=True)
class Container:
    """The container of a process of a stack."""

    stack: str
    client: Client
    namespace: str
    path: str
    pod: str
    name: str

    @property
    def pod_path(self) -> str:
        return path_of("pods", self.namespace, self.pod)


def execute(container: Container, words: Sequence[str], streams: Streams) -> int:
    """Run a command to its end and return its exit code.

    If this function raises, it first ends the command and its children, unless the image has no sh. No signal
    is passed on; SIGTERM and SIGHUP end the command.

    Raises:
        CannotStart: The image has no sh, and the command does not exist or cannot be run.
        SymphonyError: The process does not run.
    """
    # A terminal has a single stream, whose output is complete at its end.
    command, token = mark_command(words if streams.terminal else ["sh", "-c", _WRITTEN, "symphony", *words])
    feeder = Feeder(streams)
    try:
        return _run(container, command, feeder, token)
    except CannotStart as error:
        # The image may have no shell; then the command cannot be marked.
        if feeder.has_read:
            raise SymphonyError(
                f"the container of {container.path} has no sh, so standard input cannot be passed on",
                where=error.where,
                remedy="Run the command with </dev/null",
            ) from error
        return _run(container, words, Feeder(streams), "")


def mark_command(words: Sequence[str]) -> tuple[list[str], str]:
    """Return a command that runs words with a marker, and the marker, with which end() finds the command."""
    token = uuid.uuid4().hex
    return ["sh", "-c", _MARKED, "symphony", token, *words], token


def open_streams(
    container: Container, words: Sequence[str], *, terminal: bool = False, stdin: bool = True
) -> Channels:
    """Start a command and return its streams.

    Raises:
        SymphonyError: The process does not run.
    """
    query = [("container", container.name), *(("command", word) for word in words)]
    query += [("stdout", "true"), ("stderr", str(not terminal).lower())]
    query += [("stdin", str(stdin).lower()), ("tty", str(terminal).lower())]
    try:
        connection = Channels(container.client, f"{container.pod_path}/exec", query, _PROTOCOLS)
    except Refused as refused:
        raise _exec_error(container, refused) from refused
    if not connection.can_end:
        connection.close()
        raise SymphonyError(
            "exec, ssh and scp need Kubernetes 1.30 or newer, and this cluster is older",
            remedy="Use `kubectl exec` or `kubectl cp`, or upgrade the cluster",
        )
    return connection


def exit_code(container: Container, last: bytes) -> int:
    """Return the exit code of a command from the last message of its connection.

    Raises:
        CannotStart: The command did not start.
    """
    status: dict[str, Any] = json.loads(last)
    if status.get("status") == "Success":
        return 0
    for cause in listing(status, "details", "causes"):
        if cause.get("reason") == "ExitCode":
            return int(text(cause, "message"))
    reason = text(status, "message")
    if "executable file not found" in reason or "no such file or directory" in reason:
        what = f"the command does not exist in the container of {container.path}"
        raise CannotStart(
            127, what, where=_reason(reason), remedy="Check the spelling of the command, or give its path"
        )
    if "permission denied" in reason:
        what = f"the command cannot be run in the container of {container.path}"
        raise CannotStart(126, what, where=_reason(reason), remedy="Check its permissions")
    raise _exec_error(container, SymphonyError(_reason(reason)))


def _run(container: Container, words: Sequence[str], feeder: Feeder, token: str) -> int:
    streams = feeder.streams
    # A terminal has no end marker.
    end_marker = "" if streams.terminal else token
    outputs = {
        channels.STDOUT: Output(streams.stdout, end_marker),
        channels.STDERR: Output(streams.stderr, end_marker),
    }
    with (
        interruptible(),
        open_streams(container, words, terminal=streams.terminal, stdin=feeder.has_input) as connection,
    ):
        try:
            with _raw(streams), feeder.feeding(connection):
                for channel, data in connection:
                    if channel in outputs and outputs[channel].write(data):
                        if all(output.is_whole for output in outputs.values()):
                            end(container, token, _WAITING)
                            _close_soon(connection, feeder)
                    elif channel == channels.ERROR:
                        for output in outputs.values():
                            output.flush()
                        code = exit_code(container, data)
                        if code or all(output.is_whole for output in outputs.values()):
                            return code
                        break
        except CannotStart:
            raise
        except BaseException:
            end(container, token)
            raise
    end(container, token)
    if (code := outputs[channels.STDOUT].code) is not None and outputs[channels.STDERR].is_whole:
        return code
    what = f"the connection to {container.path} broke before the output of the command was complete"
    raise Unreachable(what, remedy="Run the same command again")


def _close_soon(connection: Channels, feeder: Feeder) -> None:
    """Close the connection of a command that has ended, if Kubernetes does not."""
    if feeder.has_read:
        timer = threading.Timer(_CLOSE_AFTER, connection.close)
        timer.daemon = True
        timer.start()


def end(container: Container, token: str, variable: str = _MARK) -> None:
    """End all processes with this variable and token in their environment, if the container allows it.

    variable: by default that of the whole command; _WAITING ends only the sleep after it.
    """
    if not token or container.client.is_unreachable:
        return
    with (
        contextlib.suppress(SymphonyError),
        open_streams(
            container, ["sh", "-c", _END, "symphony", f"{variable}={token}"], stdin=False
        ) as connection,
    ):
        for _ in connection:
            pass


class Output:
    """An output stream of a command, without its end marker; code: the exit code in the marker."""

    def __init__(self, descriptor: int, token: str) -> None:
        self._descriptor = descriptor
        self._marker = re.compile(f"\x1e{token}(\\d{{3}})".encode())
        self._length = len(token) + 4
        self._kept: bytes = b""
        self.code: int | None = None
        self.is_whole = not token

    def write(self, data: bytes) -> bool:
        """Write output, except an end that may begin the marker; return whether the marker was found now."""
        if self.is_whole:
            self._pass_on(data)
            return False
        data, self._kept = self._kept + data, b""
        if marker := self._marker.search(data):
            self.is_whole, self.code = True, int(marker[1])
            data = data[: marker.start()] + data[marker.end() :]
        elif 0 <= (start := data.rfind(b"\x1e")) > len(data) - self._length:
            data, self._kept = data[:start], data[start:]
        self._pass_on(data)
        return self.is_whole

    def flush(self) -> None:
        """Write the output that was held back."""
        self._pass_on(self._kept)
        self._kept = b""

    def _pass_on(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]


class Feeder:
    """A thread that forwards standard input and the size of the terminal."""

    def __init__(self, streams: Streams) -> None:
        self.streams = streams
        self.has_input = not _is_nothing(streams.stdin)
        self.has_read = False

    @contextlib.contextmanager
    def feeding(self, connection: Channels) -> Generator[None]:
        """Run the thread during the block, and close the connection after it."""
        waker, wake = os.pipe()
        os.set_blocking(wake, False)
        thread = threading.Thread(target=self._feed, args=(connection, waker), daemon=True)

        def resized(*_: object) -> None:
            with contextlib.suppress(OSError):
                os.write(wake, b"s")

        with _handler(signal.SIGWINCH, resized if self.streams.terminal else None):
            thread.start()
            resized()
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    os.write(wake, b"e")
                connection.close()
                thread.join()
                os.close(wake)
                os.close(waker)

    def _feed(self, connection: Channels, waker: int) -> None:
        """Forward input until the waker receives `e` or the connection ends."""
        sources = [waker, self.streams.stdin] if self.has_input else [waker]
        with contextlib.suppress(OSError, ValueError):
            while True:
                ready, _, _ = select.select(sources, [], [])
                if waker in ready:
                    if b"e" in os.read(waker, 64):
                        return
                    if self.streams.terminal:
                        size = os.get_terminal_size(self.streams.stdout)
                        connection.resize(size.columns, size.lines)
                if self.streams.stdin in ready:
                    if data := os.read(self.streams.stdin, channels.MAX_MESSAGE):
                        self.has_read = True
                        connection.send(channels.STDIN, data)
                    else:
                        sources.remove(self.streams.stdin)
                        connection.end(channels.STDIN)


@contextlib.contextmanager
def _raw(streams: Streams) -> Generator[None]:
    """Put the terminal into raw mode during the block, so that the process gets all keys, even Ctrl-C."""
    if not streams.terminal:
        yield
        return
    before = termios.tcgetattr(streams.stdin)
    tty.setraw(streams.stdin)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(streams.stdin, termios.TCSADRAIN, before)


@contextlib.contextmanager
def interruptible() -> Generator[None]:
    """Raise KeyboardInterrupt on SIGTERM and SIGHUP during the block, so that the command is ended too."""
    interrupt = signal.default_int_handler
    with _handler(signal.SIGTERM, interrupt), _handler(signal.SIGHUP, interrupt):
        yield


@contextlib.contextmanager
def _handler(number: signal.Signals, handler: Any) -> Generator[None]:
    """Set a signal handler during the block; only the main thread may."""
    if handler is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _is_nothing(descriptor: int) -> bool:
    """Return whether a descriptor is closed or /dev/null, so that the command needs no standard input."""
    try:
        facts = os.fstat(descriptor)
    except OSError:
        return True
    return stat.S_ISCHR(facts.st_mode) and facts.st_rdev == Path(os.devnull).stat().st_rdev


def _reason(message: str) -> str:
    """Return the reason at the end of a container runtime's message."""
    reason = message.replace("\\", "").rstrip('"').rpartition("exec failed: ")[2]
    return " ".join(reason.split())[-200:]


def _exec_error(container: Container, error: SymphonyError) -> SymphonyError:
    """Return the error for a command that did not start: the process's state, else the server's message."""
    pod = container.client.find(container.pod_path)
    status = pod_status.status(container.path, container.name, pod)
    if status.state == "running":
        return SymphonyError(f"cannot run a command in {container.path}: {error.what}", remedy=error.remedy)
    why = f": {status.why}" if status.why else ""
    return SymphonyError(
        f"{container.path} is not running: it is {status.state}{why}",
        remedy=f"`symphony why {container.stack} {container.path}` explains that state",
    )
