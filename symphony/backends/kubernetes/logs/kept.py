"""The log lines that were read, kept on this machine: a pod takes its log with it; logs and observe ask."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import cast

from symphony import paths
from symphony.backends.kubernetes.status import pod_status

# Of one process; when there is more, the older half goes.
MOST = 8_000_000

Moment = tuple[float, bool, str]
_NEVER: Moment = (-1.0, False, "")


@dataclass(frozen=True)
class Kept:
    """One line: the uid of its pod, the time that the cluster gave it, whether it is the word of an end."""

    uid: str
    stamp: str
    text: str
    ended: bool = False


def order(line: Kept) -> Moment:
    """When it was, to the nanosecond; the end of a process comes after all that was said in its second."""
    moment = pod_status.epoch(line.stamp)
    if moment is None:
        return (0.0, line.ended, "")
    return (moment // 1, line.ended, "".join(takewhile(str.isdigit, line.stamp.partition(".")[2][:9])))


class Shelf:
    """The kept lines of one process; several commands may put lines on it at the same time."""

    def __init__(self, owner: str, namespace: str, name: str) -> None:
        self._file = folder(owner, namespace) / name
        self._cut = _NEVER

    def lines(self) -> list[Kept]:
        """What is there, in the order in which it was read, each once."""
        every = list(dict.fromkeys(self._read()))
        self._cut = max((order(line) for line in every if _is_cut(line)), default=_NEVER)
        return [line for line in every if not _is_cut(line)]

    def add(self, *lines: Kept) -> None:
        """Keep some lines; a disk that takes none is no reason to show none.

        One from before what was cut off is left out: it would only be cut off again.
        """
        data = b"".join(_written(line) for line in lines if order(line) > self._cut)
        if not data:
            return
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
        """By time, for what was read last may be the oldest."""
        every = sorted(dict.fromkeys(self._read()), key=order)
        older = every[: len(every) // 2 + 1]
        if older:
            self._cut = order(older[-1])
        newer = [line for line in every if order(line) > self._cut]
        # Where a cut was made is a line too, of no pod, for the commands that come after this one.
        cuts = [Kept("", line.stamp, "", line.ended) for line in older[-1:]]
        draft = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        draft.touch(mode=0o600)
        draft.write_bytes(b"".join(_written(line) for line in [*cuts, *newer]))
        draft.replace(self._file)


def _is_cut(line: Kept) -> bool:
    return not line.uid


def _written(line: Kept) -> bytes:
    return json.dumps([line.uid, line.stamp, line.text, line.ended]).encode() + b"\n"


def folder(owner: str, namespace: str) -> Path:
    """Where the lines of an experiment are kept."""
    digest = hashlib.sha256(f"{owner} {namespace}".encode()).hexdigest()[:8]
    return paths.home() / "read" / f"{namespace}-{digest}"


def forget(owner: str, namespace: str) -> None:
    """Let go of the lines of an experiment that is deleted."""
    shutil.rmtree(folder(owner, namespace), ignore_errors=True)
