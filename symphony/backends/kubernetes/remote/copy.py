"""Copies files and folders into and out of a container, as tar through a command; inside calls it.

What runs there is always the same text: places and names are its arguments, never part of it.
"""

from __future__ import annotations

import io
import threading
import uuid
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from symphony.backends.access import CannotStart, Copied
from symphony.backends.archive import CHUNK, Hostile, Packing, end_mark, unpack
from symphony.backends.atomic_copy import beside
from symphony.backends.kubernetes.api import channels
from symphony.backends.kubernetes.api.channels import Channels
from symphony.backends.kubernetes.api.client import Unreachable
from symphony.backends.kubernetes.remote.exec import Place, end, exit_code, interruptible, marked, opened
from symphony.errors import SymphonyError, UserError

_MISTAKE = 65
_LONGEST = 2000
# Unpacks beside the final name and renames: two folders become one, a link in the way is replaced. An archive
# that was cut off has no end mark, and then nothing is renamed. A word on standard output stops who sends;
# what is on its way is taken until then, because a connection that is broken off loses the reason.
_RECEIVE = (
    f'fail() {{ echo "$1" >&2; stop {_MISTAKE}; }}'
    + """
stop() { echo stop; cat >/dev/null; exit "$1"; }
several() { into=$2; shift 2; mv -f "$@" "$into/" || stop 1; }
put() {
  if [ -d "$1" ] && [ ! -L "$1" ] && [ -d "$2" ] && [ ! -L "$2" ]; then
    for entry in "$1"/* "$1"/.[!.]* "$1"/..?*; do
      final=$2/${entry##*/}
      if [ ! -e "$entry" ] && [ ! -L "$entry" ]; then continue
      elif { [ -d "$entry" ] && [ ! -L "$entry" ]; } || [ -d "$final" ] || [ -L "$final" ]; then
        put "$entry" "$final"
      else set -- "$@" "$entry"
      fi
      if [ $# -gt 200 ]; then several "$@"; set -- "$1" "$2"; fi
    done
    if [ $# -gt 2 ]; then several "$@"; fi
  else
    if [ -d "$2" ] && [ ! -L "$2" ]; then fail "there is a folder of this name: $2"; fi
    if [ -d "$1" ] && [ ! -L "$1" ]; then
      if [ -e "$2" ] || [ -L "$2" ]; then fail "this is no folder: $2"; fi
    fi
    if [ -L "$2" ]; then rm -f "$2"; fi
    mv -f "$1" "$2" || stop 1
  fi
}
final=$1
if [ -d "$final" ]; then final=${final%/}/$2
else case $final in */) fail "there is no such folder: $final";; esac
fi
folder=${final%/*}; folder=${folder:-/}
[ -d "$folder" ] || fail "there is no such folder: $folder"
draft=$folder/.symphony-$3
trap 'rm -rf "$draft"' EXIT
trap 'exit 130' HUP INT TERM
mkdir -m 700 "$draft" || stop 1
tar -xmf - -C "$draft" || stop $?
[ -e "$draft/end" ] || fail "the archive was cut off"
put "$draft/new" "$final"
"""
)
_SEND = (
    f'fail() {{ echo "$1" >&2; exit {_MISTAKE}; }}'
    + """
[ -e "$1" ] || fail "there is no such file or folder: $1"
if [ -d "$1" ]; then cd "$1" && exec tar -cf - .; fi
cd "${1%/*}/" && exec tar -chf - "./${1##*/}"
"""
)


def send(place: Place, source: Path, target: str) -> Iterator[Copied]:
    """Copy from this machine; it appears under its final name once it is whole."""
    if not source.exists():
        raise UserError(f"there is no such file or folder: {source}")
    packing = Packing(source, "new")
    with _talk(place, _RECEIVE, [_written(target), source.name, uuid.uuid4().hex[:12]], stdin=True) as talk:
        with talk.listening():
            for chunk in _gathered(packing):
                if talk.stopped.is_set():
                    break
                talk.connection.send(channels.STDIN, chunk)
                yield packing.so_far
            else:
                talk.connection.send(channels.STDIN, end_mark("end"))
            talk.connection.end(channels.STDIN)
        talk.check()
    yield packing.so_far


def fetch(place: Place, source: str, final: Path) -> Iterator[Copied]:
    """Copy to this machine; it appears under its final name once it is whole."""
    with _talk(place, _SEND, [_written(source)], stdin=False) as talk, beside(final) as new:
        try:
            yield from unpack(io.BufferedReader(_Stream(talk.output()), CHUNK), new)
        except Hostile:
            raise
        except SymphonyError:
            # Where nothing came, or not all, the other end's own words say why.
            talk.check()
            raise
        talk.check()


class _Talk:
    """What a command in the container says while it runs, and how it ends."""

    def __init__(self, place: Place, connection: Channels) -> None:
        self.connection = connection
        self._place = place
        self._said = b""
        self._status: bytes | None = None
        self.stopped = threading.Event()

    def output(self) -> Iterator[bytes]:
        """Its standard output as it comes, to the end."""
        for channel, data in self.connection:
            if channel == channels.STDOUT and data:
                yield data
            elif channel == channels.STDERR:
                self._said = (self._said + data)[-_LONGEST:]
            elif channel == channels.ERROR:
                self._status = data
                return

    @contextmanager
    def listening(self) -> Generator[None]:
        """Listen while the block sends, and then to the end; when the command ends, sending fails."""

        def listen() -> None:
            with suppress(SymphonyError):
                for _ in self.output():
                    self.stopped.set()
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
        """UserError, SymphonyError: it did not do its work, and what it says of that."""
        for _ in self.output():
            pass
        if self._status is None:
            raise Unreachable(f"the connection to {self._place.path} ended before the copy did")
        try:
            code = exit_code(self._place, self._status)
        except CannotStart as error:
            code, self._said = 127, error.what.encode()
        said = " ".join(self._said.decode(errors="replace").split())
        if code == _MISTAKE:
            raise UserError(said, where=self._place.path)
        if code == 127:
            raise SymphonyError(
                f"{self._place.path} has no sh or no tar: {said}", remedy="Copying needs an image with both"
            )
        # GNU tar says so of a log that grew: what came is whole all the same.
        if code and not (code == 1 and said.count("tar: ") == said.count("changed as we read it") > 0):
            raise SymphonyError(
                f"the copy failed in {self._place.path}: {said or f'exit {code}'}",
                remedy="Mend that there, or name another place; what was there before is as it was",
            )


@contextmanager
def _talk(place: Place, script: str, words: Sequence[str], *, stdin: bool) -> Generator[_Talk]:
    """Run a script of ours; whatever happens in the block, it does not run on after it."""
    command, token = marked(["sh", "-c", script, "symphony", *words])
    with interruptible(), opened(place, command, stdin=stdin) as connection:
        try:
            yield _Talk(place, connection)
        except BaseException:
            connection.close()
            end(place, token)
            raise


class _Stream(io.RawIOBase):
    """Chunks as a file to read."""

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


def _gathered(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Small chunks together: each message costs the same, however little is in it."""
    held = bytearray()
    for chunk in chunks:
        if not held and len(chunk) >= channels.MESSAGE:
            yield chunk
            continue
        held += chunk
        if len(held) >= channels.MESSAGE:
            yield bytes(held)
            held.clear()
    yield bytes(held)


def _written(place: str) -> str:
    """A place that no command takes for an option: a relative one begins where the process runs."""
    return place if place.startswith("/") else f"./{place}"
