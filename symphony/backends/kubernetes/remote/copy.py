"""Copies files and folders into and out of a container, as `kubectl cp` does.

The script that runs there is constant: paths and names are its arguments, never part of its text.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from symphony.backends.access import CannotStart, Copied, OnBytes
from symphony.backends.copying import CHUNK, CountingStream, Damaged, existing, pack, unpack
from symphony.backends.kubernetes.api import channels
from symphony.backends.kubernetes.api.channels import Channels
from symphony.backends.kubernetes.api.client import Unreachable
from symphony.backends.kubernetes.remote.exec import Place, end, exit_code, interruptible, marked, opened
from symphony.errors import SymphonyError, UserError

_MISTAKE = 65
_LONGEST = 2000
# A word on standard output stops the sender; what is on its way is still read, because a connection that is
# broken off loses the reason.
_RECEIVE = (
    f'fail() {{ echo "$1" >&2; stop {_MISTAKE}; }}'
    + """
stop() { echo stop; cat >/dev/null; exit "$1"; }
final=$1
if [ -d "$final" ]; then final=${final%/}/$2
else case $final in */) fail "there is no such folder: $final";; esac
fi
folder=${final%/*}; folder=${folder:-/}
[ -d "$folder" ] || fail "there is no such folder: $folder"
if [ "$3" = folder ]; then
  [ -d "$final" ] || mkdir "$final" || stop 1
  tar -xmf - -C "$final" || stop $?
else
  [ -d "$final" ] && fail "there is a folder of this name: $final"
  cat >"$final" && chmod "$3" "$final" || stop 1
fi
"""
)
_SEND = (
    f'fail() {{ echo "$1" >&2; exit {_MISTAKE}; }}'
    + """
[ -e "$1" ] || fail "there is no such file or folder: $1"
if [ -d "$1" ]; then cd "$1" && tar -cf - .
else cd "${1%/*}/" && tar -chf - "./${1##*/}"
fi || exit
# Kubernetes discards the output that is on its way when a command ends, and calls that a success:
# this one ends when the other end has it all, which closes its input.
read -r _ || :
"""
)


def send(place: Place, source: Path, target: str, on_bytes: OnBytes) -> Copied:
    """Copy from this machine."""
    path = existing(source)
    kind = "folder" if path.is_dir() else f"{path.stat().st_mode & 0o777:o}"
    with _talk(place, _RECEIVE, [_written(target), source.name, kind]) as talk:
        done = Copied()
        with talk.listening():
            stream = CountingStream(on_bytes, write=talk.send)
            with suppress(_Stopped):
                done = pack(path, stream) if path.is_dir() else _written_file(path, stream)
            talk.connection.end(channels.STDIN)
        talk.check()
    return done


def fetch(place: Place, source: str, final: Path, on_bytes: OnBytes) -> Copied:
    """Copy to this machine."""
    with _talk(place, _SEND, [_written(source)]) as talk:
        try:
            # read1, because read would wait for a whole chunk.
            read = io.BufferedReader(_Stream(talk.output()), CHUNK).read1
            done = unpack(CountingStream(on_bytes, read=read), final)
        except Damaged:
            # The command's own error says why the archive is cut off.
            _acknowledge(talk)
            raise
        _acknowledge(talk)
    return done


def _acknowledge(talk: _Talk) -> None:
    """Let the command end, and raise its error where it failed."""
    with suppress(ConnectionError):
        talk.connection.end(channels.STDIN)
    talk.check()


def _written_file(source: Path, stream: CountingStream) -> Copied:
    done = Copied(1)
    with source.open("rb") as file:
        while data := file.read(CHUNK):
            done = done.more(size=stream.write(data))
    return done


class _Stopped(Exception):
    """The command in the container takes no more input."""


class _Talk:
    """The streams of a command in the container, and how it ended."""

    def __init__(self, place: Place, connection: Channels) -> None:
        self.connection = connection
        self._place = place
        self._stderr = b""
        self._status: bytes | None = None
        self._is_stopped = False

    def send(self, data: bytes) -> None:
        """Send to its standard input.

        Raises:
            ConnectionError: The command has ended.
            _Stopped: It takes no more.
        """
        if self._is_stopped:
            raise _Stopped
        self.connection.send(channels.STDIN, data)

    def output(self) -> Iterator[bytes]:
        """Yield its standard output as it comes, to the end."""
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
        """Read its output while the block sends, then to the end; once it has ended, sending fails."""

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
            # It ended before it had taken everything.
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
            raise Unreachable(f"the connection to {self._place.path} ended before the copy did")
        try:
            code = exit_code(self._place, self._status)
        except CannotStart as error:
            code, self._stderr = 127, error.what.encode()
        reason = " ".join(self._stderr.decode(errors="replace").split())
        if code == _MISTAKE:
            raise UserError(reason, where=self._place.path)
        if code == 127:
            raise SymphonyError(
                f"{self._place.path} has no sh or no tar: {reason}",
                remedy="Copying needs an image with both",
            )
        # GNU tar says so of a log that grew: what came is whole all the same.
        if code and not (code == 1 and reason.count("tar: ") == reason.count("changed as we read it") > 0):
            raise SymphonyError(
                f"the copy failed in {self._place.path}: {reason or f'exit {code}'}",
                remedy="Correct the cause there, or choose another path",
            )


@contextmanager
def _talk(place: Place, script: str, words: Sequence[str]) -> Generator[_Talk]:
    """Run a script; it has ended when the block ends, whatever happens."""
    command, token = marked(["sh", "-c", script, "symphony", *words])
    with interruptible(), opened(place, command) as connection:
        try:
            yield _Talk(place, connection)
        except BaseException:
            connection.close()
            end(place, token)
            raise


class _Stream(io.RawIOBase):
    """A readable file over chunks of bytes."""

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


def _written(place: str) -> str:
    """Return a path that no command takes for an option; a relative one begins where the process runs."""
    return place if place.startswith("/") else f"./{place}"
