"""The log lines that were read, kept on this machine: a pod takes its log with it; logs and observe ask."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from symphony import paths

# Of one process; when there is more, the older half goes.
MOST = 8_000_000


@dataclass(frozen=True)
class Kept:
    """One line: the uid of its pod, the time that the cluster gave it, whether it is the word of an end."""

    uid: str
    stamp: str
    text: str
    ended: bool = False


class Shelf:
    """The kept lines of one process; several commands may put lines on it at the same time."""

    def __init__(self, owner: str, namespace: str, name: str) -> None:
        self._file = folder(owner, namespace) / name

    def lines(self) -> list[Kept]:
        """What is there, in the order in which it was read, each once."""
        return list(dict.fromkeys(self._read()))

    def add(self, line: Kept) -> None:
        """Keep a line; a disk that takes none is no reason to show none."""
        data = json.dumps([line.uid, line.stamp, line.text, line.ended]).encode() + b"\n"
        try:
            paths.private_folder(self._file.parent)
            descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                os.write(descriptor, data)
                size = os.fstat(descriptor).st_size
            finally:
                os.close(descriptor)
            if size > MOST:
                self._halve()
        except OSError:
            return

    def _read(self) -> Iterator[Kept]:
        try:
            raw = self._file.read_bytes().splitlines()
        except OSError:
            return
        for line in raw:
            try:
                uid, stamp, text, ended = cast("tuple[str, str, str, bool]", json.loads(line))
                yield Kept(str(uid), str(stamp), str(text), bool(ended))
            except (ValueError, TypeError):
                # What a full disk or a crash cut off.
                continue

    def _halve(self) -> None:
        whole = self._file.read_bytes()
        draft = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        draft.touch(mode=0o600)
        draft.write_bytes(whole[len(whole) // 2 :].partition(b"\n")[2])
        draft.replace(self._file)


def folder(owner: str, namespace: str) -> Path:
    """Where the lines of an experiment are kept."""
    digest = hashlib.sha256(f"{owner} {namespace}".encode()).hexdigest()[:8]
    return paths.home() / "read" / f"{namespace}-{digest}"


def forget(owner: str, namespace: str) -> None:
    """Let go of the lines of an experiment that is deleted."""
    shutil.rmtree(folder(owner, namespace), ignore_errors=True)
