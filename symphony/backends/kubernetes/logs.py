"""The logs of containers as lines, merged by time, over restarts and replaced pods; observe calls it."""

from __future__ import annotations

import heapq
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import repeat

from symphony.backends.interface import LogLine
from symphony.backends.kubernetes import conditions
from symphony.backends.kubernetes.client import Body, Client, Refused, Unreachable, pods_path
from symphony.errors import SymphonyError

_AT_ONCE = 16
_ROUND = 0.5
# The API server sends nothing while a process is silent, so silence only means that it is worth a look.
_SILENCE = 30.0
# A few last lines are there at once, or the node does not answer.
_WORDS_DEADLINE = 10.0


@dataclass(frozen=True)
class Place:
    """Where the log of one process is."""

    path: str
    pod: str
    container: str


def merged(
    client: Client,
    namespace: str,
    places: Sequence[Place],
    *,
    follow: bool,
    since: float | None,
    tail: int | None,
) -> Iterator[LogLine]:
    """The lines of some processes in the order of time; with follow, those to come until all have ended."""
    readers = [_Reader(client, namespace, place) for place in places]
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        pasts = list(pool.map(_Reader.past, readers, repeat(since), repeat(tail)))
    yield from heapq.merge(*pasts, key=lambda line: line.time or 0)
    if follow:
        yield from _following(readers)


def last_lines(client: Client, namespace: str, place: Place, count: int, *, previous: bool) -> list[str]:
    """The last lines of a container, or of its start before this one; none where there is no log any more."""
    query: dict[str, str | int] = {"container": place.container, "tailLines": count, "limitBytes": 20_000}
    query |= {"previous": "true"} if previous else {}
    try:
        with client.stream(f"{pods_path(namespace, place.pod)}/log", _WORDS_DEADLINE, **query) as stream:
            lines = [raw.decode("utf-8", "replace").strip() for raw in stream]
    except (Refused, OSError):
        return []
    return [line for line in lines if line]


def _following(readers: Sequence[_Reader]) -> Iterator[LogLine]:
    """What all of them say from now on; a thread waits for each: the API server sends one log at a time."""
    told: queue.SimpleQueue[LogLine | SymphonyError | None] = queue.SimpleQueue()
    ended = threading.Event()

    def pump(reader: _Reader) -> None:
        try:
            for line in reader.news(ended):
                told.put(line)
            told.put(None)
        except SymphonyError as error:
            told.put(error)

    threads = [threading.Thread(target=pump, args=(reader,), daemon=True) for reader in readers]
    for thread in threads:
        thread.start()
    try:
        left = len(threads)
        while left:
            line = told.get()
            if isinstance(line, SymphonyError):
                raise line
            if line is None:
                left -= 1
            else:
                yield line
    finally:
        ended.set()


class _Reader:
    """One process's log: what is there, then what comes."""

    def __init__(self, client: Client, namespace: str, place: Place) -> None:
        self.place = place
        self._client = client
        self._pod_path = pods_path(namespace, place.pod)
        self._log_path = f"{self._pod_path}/log"
        # The API server cuts by whole seconds, so what was told is told by time and text.
        self._last = ""
        self._latest = 0.0
        self._told: set[str] = set()
        self._ends: set[str] = set()

    def past(self, since: float | None, tail: int | None) -> list[LogLine]:
        """The lines there are; of a container that was restarted also those of the start before."""
        query: dict[str, str] = {} if since is None else {"sinceTime": _written(since)}
        query |= {} if tail is None else {"tailLines": str(tail)}
        pod = self._pod()
        if pod is None:
            return []
        lines: list[LogLine] = []
        if conditions.status("", self.place.container, pod).restarts:
            lines += self._read({**query, "previous": "true"})
        lines += self._read(query)
        if tail is not None:
            lines = lines[len(lines) - min(tail, len(lines)) :]
        ends = [end for end in self._new_ends(pod) if (end.time or 0) >= (since or 0)]
        return sorted([*lines, *ends], key=lambda line: line.time or 0)

    def news(self, ended: threading.Event) -> Iterator[LogLine]:
        """The lines that come, over restarts, until the process has ended for good or its pod is gone."""
        while not ended.is_set():
            yield from self._stream(ended)
            pod = self._pod()
            if pod is None:
                return
            yield from self._new_ends(pod)
            if conditions.status("", self.place.container, pod).state in ("completed", "failed", "lost"):
                yield from self._read({"sinceTime": self._last.partition("Z")[0] + "Z"} if self._last else {})
                return
            time.sleep(_ROUND)

    def _pod(self) -> Body | None:
        return self._client.find(self._pod_path)

    def _read(self, query: dict[str, str]) -> list[LogLine]:
        lines: list[LogLine] = []
        try:
            with self._client.stream(self._log_path, _SILENCE, **self._query(query)) as stream:
                for raw in stream:
                    lines += self._line(raw)
        except Refused as refused:
            # A container that has not started yet has no log.
            if refused.status not in (400, 404):
                raise
        except OSError as error:
            raise Unreachable(f"the log of {self.place.path} stopped coming: {error}") from error
        return lines

    def _stream(self, ended: threading.Event) -> Iterator[LogLine]:
        query = {"follow": "true"} | ({"sinceTime": self._last} if self._last else {})
        try:
            with self._client.stream(self._log_path, _SILENCE, **self._query(query)) as stream:
                for raw in stream:
                    if ended.is_set():
                        return
                    yield from self._line(raw)
        except Refused as refused:
            if refused.status not in (400, 404):
                raise
        except OSError:
            # Silence, or a connection that broke: the loop above goes on where this ended.
            return

    def _query(self, more: dict[str, str]) -> dict[str, str | int]:
        return {"container": self.place.container, "timestamps": "true", **more}

    def _line(self, raw: bytes) -> list[LogLine]:
        stamp, _, text = raw.decode("utf-8", "replace").rstrip("\r\n").partition(" ")
        if stamp < self._last or (stamp == self._last and text in self._told):
            return []
        if stamp != self._last:
            self._last, self._told = stamp, set()
        self._told.add(text)
        self._latest = conditions.epoch(stamp) or self._latest
        return [LogLine(self.place.path, text, self._latest)]

    def _new_ends(self, pod: Body) -> list[LogLine]:
        """How starts of the process ended, each told once."""
        found: list[LogLine] = []
        for ended in conditions.ends(pod, self.place.container):
            moment = str(ended.get("finishedAt"))
            if moment not in self._ends:
                self._ends.add(moment)
                how = conditions.how_it_ended(ended)
                # The API server cuts this time to whole seconds, which is before the last words.
                time_of = max(conditions.epoch(moment) or 0, self._latest)
                found.append(LogLine(self.place.path, f"ended: {how}", time_of, ended=True))
        return found


def _written(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
