"""Copies files and folders into and out of a container, as `kubectl cp` does.

The scripts that run in the container are constant: paths and names are arguments, never part of their text.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from symphony.backends.access import CannotStart, Copied, OnBytes
from symphony.backends.copying import CHUNK, CountingStream, Damaged, pack, resolve_source, unpack
from symphony.backends.kubernetes.api import channels
from symphony.backends.kubernetes.api.channels import Channels
from symphony.backends.kubernetes.api.client import Unreachable
from symphony.backends.kubernetes.exec import (
    Container,
    end,
    exit_code,
    interruptible,
    mark_command,
    open_streams,
)
from symphony.errors import SymphonyError, UserError

# The exit code of the scripts for a mistake of the user, such as a wrong path.
_MISTAKE = 65
# How many of the last bytes of the error output are kept.
_LONGEST = 2000
# A word on standard output stops the sender. Data in flight is still read, because a broken connection would
# lose the reason.
_RECEIVE = (
    f'fail() {{ echo "$1" >&2; stop {_MISTAKE}; }}'
    + """
stop() { echo stop; cat >/dev/null; exit "$1"; }
final=$1
if [ -d "$final" ]; then final=${final%/}/$2
else case $final in */) fail "no such folder: $final";; esac
fi
folder=${final%/*}; folder=${folder:-/}
[ -d "$folder" ] || fail "no such folder: $folder"
if [ "$3" = folder ]; then
  [ -d "$final" ] || mkdir "$final" || stop 1
  tar -xmf - -C "$final" || stop $?
else
  [ -d "$final" ] && fail "the target is a folder: $final"
  cat >"$final" && chmod "$3" "$final" || stop 1
fi
"""
)
_SEND = (
    f'fail() {{ echo "$1" >&2; exit {_MISTAKE}; }}'
    + """
[ -e "$1" ] || fail "no such file or folder: $1"
if [ -d "$1" ]; then cd "$1" && tar -cf - .
else cd "${1%/*}/" && tar -chf - "./${1##*/}"
fi || exit
# Kubernetes discards output in flight when a command ends, and reports success. So this command ends only
# when the other end has received everything and closes the input.
read -r _ || :
"""
)


def send(container: Container, source: Path, target: str, on_bytes: OnBytes) -> Copied:
    """Copy a file or folder from this machine to the container."""
    path = resolve_source(source)
    folder_or_mode = "folder" if path.is_dir() else f"{path.stat().st_mode & 0o777:o}"
    with _running(container, _RECEIVE, [_as_path(target), source.name, folder_or_mode]) as command:
        done = Copied()
        with command.listening():
            stream = CountingStream(on_bytes, write=command.send)
            with suppress(_Stopped):
                done = pack(path, stream) if path.is_dir() else _send_file(path, stream)
            command.connection.end(channels.STDIN)
        command.check()
    return done


def fetch(container: Container, source: str, target: Path, on_bytes: OnBytes) -> Copied:
    """Copy a file or folder from the container to this machine."""
    with _running(container, _SEND, [_as_path(source)]) as command:
        try:
            # read1, since read would wait for a whole chunk.
            read = io.BufferedReader(_Stream(command.output()), CHUNK).read1
            done = unpack(CountingStream(on_bytes, read=read), target)
        except Damaged:
            # The command's error says why the archive is truncated.
            _acknowledge(command)
            raise
        _acknowledge(command)
    return done


def _acknowledge(command: _RemoteCommand) -> None:
    """Let the command end, and raise its error if it failed."""
    with suppress(ConnectionError):
        command.connection.end(channels.STDIN)
    command.check()


def _send_file(source: Path, stream: CountingStream) -> Copied:
    done = Copied(1)
    with source.open("rb") as file:
        while data := file.read(CHUNK):
            done = done.more(size=stream.write(data))
    return done


class _Stopped(Exception):
    """The command in the container accepts no more input."""


class _RemoteCommand:
    """A command in the container: its streams and its exit status."""

    def __init__(self, container: Container, connection: Channels) -> None:
        self.connection = connection
        self._container = container
        self._stderr = b""
        self._status: bytes | None = None
        self._is_stopped = False

    def send(self, data: bytes) -> None:
        """Send data to the command's standard input.

        Raises:
            ConnectionError: The command has ended.
            _Stopped: The command accepts no more input.
        """
        if self._is_stopped:
            raise _Stopped
        self.connection.send(channels.STDIN, data)

    def output(self) -> Iterator[bytes]:
        """Yield the command's standard output to the end."""
        for channel, data in self.connection:
            if channel == channels.STDOUT and data:
                yield data
            elif channel == channels.STDERR:
                self._stderr = (self._stderr + data)[-_LONGEST:]
            elif channel == channels.ERROR:
                self._status = data
                return

    @contextmanager
    def listening(self) -> Generator[None]:
        """Read the output in a thread while the block sends, and wait for its end after the block.

        From the first output on, `send` raises _Stopped; after its end, ConnectionError.
        """

        def listen() -> None:
            with suppress(SymphonyError):
                for _ in self.output():
                    self._is_stopped = True
            self.connection.close()

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            yield
        except ConnectionError:
            # The command ended before it had read everything.
            pass
        except BaseException:
            self.connection.close()
            raise
        finally:
            listener.join()

    def check(self) -> None:
        """Raise UserError or SymphonyError with the output of a command that failed."""
        for _ in self.output():
            pass
        if self._status is None:
            what = f"the connection to {self._container.path} broke before the copy was complete"
            raise Unreachable(what, remedy="Run the same command again")
        try:
            code = exit_code(self._container, self._status)
        except CannotStart as error:
            code, self._stderr = 127, error.what.encode()
        reason = " ".join(self._stderr.decode(errors="replace").split())
        if code == _MISTAKE:
            raise UserError(reason, where=self._container.path, remedy="Check the path in the container")
        if code == 127:
            raise SymphonyError(
                f"the container of {self._container.path} has no sh or no tar: {reason}",
                remedy="Use an image that has both, which copying needs",
            )
        # GNU tar reports this for a file that grew meanwhile; the copy is complete nevertheless.
        if code and not (code == 1 and reason.count("tar: ") == reason.count("changed as we read it") > 0):
            raise SymphonyError(
                f"the copy failed in the container of {self._container.path}: {reason or f'exit {code}'}",
                remedy="Correct that in the container, or choose another path",
            )


@contextmanager
def _running(container: Container, script: str, words: Sequence[str]) -> Generator[_RemoteCommand]:
    """Run a script during the block; it has ended when the block ends, whatever happens."""
    command, token = mark_command(["sh", "-c", script, "symphony", *words])
    with interruptible(), open_streams(container, command) as connection:
        try:
            yield _RemoteCommand(container, connection)
        except BaseException:
            connection.close()
            end(container, token)
            raise


class _Stream(io.RawIOBase):
    """A readable file made of an iterator of chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def _as_path(path: str) -> str:
    """Return a path that no command mistakes for an option; a relative path stays relative."""
    return path if path.startswith("/") else f"./{path}"
