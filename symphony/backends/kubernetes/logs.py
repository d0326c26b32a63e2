"""Reads the logs of containers as lines, merged by time, across restarts and replaced pods."""

from __future__ import annotations

import heapq
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import repeat

from symphony.backends.kubernetes import inventory, pod_status
from symphony.backends.kubernetes.api.client import Body, Client, Refused, Unreachable, path_of
from symphony.backends.kubernetes.api.fields import mapping, text
from symphony.backends.kubernetes.manifests import labels, workloads
from symphony.backends.observe import LogLine, State
from symphony.plan.names import printable

_CONCURRENT_READS = 16
_POLL_SECONDS = 0.5
# Seconds between listings that show whether an ended process was started again.
_LOOK_AGAIN = 2.0
# The API server sends nothing while a process is silent, so after this long the pod is looked at. Together
# with an unanswered request it stays below the 30 s after which a silent server is an error.
_SILENCE = 12.0
# How long a followed process may be without a pod, while an `up` replaces it.
_REPLACED_WITHIN = 5.0
# A node reports an end up to a second after the last line, a busy API server seconds later.
_EXIT_STATUS_WITHIN = 6.0
# The last lines arrive at once, or the node does not answer.
_LAST_LINES_DEADLINE = 10.0


@dataclass(frozen=True)
class Container:
    """The container of the process `path`; pod: the name of the pod's manifest."""

    path: str
    pod: str
    name: str


def merge(
    client: Client,
    namespace: str,
    containers: Sequence[Container],
    *,
    alive: Callable[[], bool] | None,
    since: float | None,
    tail: int | None,
) -> Iterator[LogLine]:
    """Yield the lines of processes in the order of time; with alive, also new lines until it returns False.

    alive: called when all processes have ended.
    since: by the clock of this machine; the lines carry the times of the nodes.
    """
    since = since + client.clock_skew if since else since
    readers = [_Reader(client, namespace, container) for container in containers]
    yield from heapq.merge(*_pasts(readers, since, tail), key=lambda line: line.time or 0)
    if alive is not None:
        yield from _following(client, namespace, readers, alive)


def _pasts(readers: Sequence[_Reader], since: float | None, tail: int | None) -> list[list[LogLine]]:
    """Return the lines of each process so far; several logs are read at once."""
    if len(readers) == 1:
        # Uses the open connection, and no threads, whose import takes as long.
        return [readers[0].past(since, tail)]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=_CONCURRENT_READS) as pool:
        return list(pool.map(_Reader.past, readers, repeat(since), repeat(tail)))


def last_lines(
    client: Client, namespace: str, pod: str, container: str, count: int, *, previous: bool
) -> list[str]:
    """Return the last lines of a container, or of its previous start; empty if the log cannot be read."""
    query: dict[str, str | int] = {"container": container, "tailLines": count, "limitBytes": 20_000}
    query |= {"previous": "true"} if previous else {}
    try:
        with client.stream(f"{path_of('pods', namespace, pod)}/log", _LAST_LINES_DEADLINE, **query) as stream:
            lines = [raw.decode("utf-8", "replace").rstrip() for raw in stream]
    except (Refused, Unreachable, OSError):
        return []
    return [line for line in lines if line]


def _following(
    client: Client, namespace: str, readers: Sequence[_Reader], alive: Callable[[], bool]
) -> Iterator[LogLine]:
    """Yield new lines until all processes have ended; each log is followed by a thread.

    An `up` may restart the ended processes, so they are looked at again until then.
    """
    lines: queue.SimpleQueue[LogLine | Exception | _Reader] = queue.SimpleQueue()
    ended = threading.Event()

    def pump(reader: _Reader) -> None:
        try:
            for line in reader.new_lines(ended):
                lines.put(line)
            lines.put(reader)
        except Exception as error:
            # Passed on to the reading thread, which would otherwise wait for ever.
            lines.put(error)

    finished: list[_Reader] = []
    looked = time.monotonic()
    try:
        for reader in readers:
            threading.Thread(target=pump, args=(reader,), daemon=True).start()
        while len(finished) < len(readers) or alive():
            if finished and time.monotonic() - looked > _LOOK_AGAIN:
                looked = time.monotonic()
                pods = labels.by_pod(client.items(path_of("pods", namespace), labelSelector=labels.OURS))
                for reader in [reader for reader in finished if reader.is_started_again(pods)]:
                    finished.remove(reader)
                    threading.Thread(target=pump, args=(reader,), daemon=True).start()
            try:
                item = lines.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            if isinstance(item, Exception):
                raise item
            if isinstance(item, LogLine):
                yield item
            else:
                finished.append(item)
    finally:
        ended.set()


class _Seen:
    """The lines of the last second of a log, to drop repetitions when the log is read again.

    A request can start only at a whole second. All time stamps have nine digits.
    """

    def __init__(self) -> None:
        # The time of the last line, which may not be the newest if a clock was set back.
        self.last = ""
        self._first = ""
        self._is_first_of_request = False
        self._lines: set[tuple[str, str]] = set()

    def begin_request(self) -> None:
        """Expect a first line that may have been printed before, or that is the last piece of a long line.

        A node stores a line of more than 16 KiB in pieces, each with its own time; a request may begin at any
        of them.
        """
        self._is_first_of_request = True

    def add(self, stamp: str, text: str) -> bool:
        """Record a line and return whether it is new, and not older than the first line recorded."""
        self._first = self._first or stamp
        if _second(stamp) == _second(self._first) and stamp < self._first:
            return False
        is_first, self._is_first_of_request = self._is_first_of_request, False
        if (stamp, text) in self._lines or (is_first and stamp < self.last):
            return False
        if _second(stamp) != _second(self.last):
            self._lines.clear()
        self._lines.add((stamp, text))
        self.last = stamp
        return True


def _second(stamp: str) -> str:
    return stamp.partition(".")[0]


class _Reader:
    """The log of a process: its lines so far, then new lines."""

    def __init__(self, client: Client, namespace: str, container: Container) -> None:
        self.container = container
        self._client = client
        self._namespace = namespace
        self._uid: str = ""
        self._seen = _Seen()
        self._latest = 0.0
        self._ends: set[tuple[str, str]] = set()
        self._unread: dict[str, str] = {}
        self._from: float | None = None

    def past(self, since: float | None, tail: int | None) -> list[LogLine]:
        """Return the lines so far, including the previous start of a restarted container."""
        self._from = since
        query = _since(since)
        # At least one line, since following begins at its time.
        query |= {} if tail is None else {"tailLines": str(max(tail, 1))}
        lines: list[LogLine] = []
        pods = self._pods()
        if not pods:
            self._unread[""] = "the pod no longer exists"
        for pod in pods:
            self._select(pod)
            status = pod_status.container_status(pod, self.container.name)
            # Until the next start, the log of the last start is also the current log.
            if status.get("restartCount") and not mapping(status, "state", "waiting"):
                lines += self._read(pod, {**query, "previous": "true"})
                lines += self._new_ends(pod, before=True)
                # The next request reads the start after it.
                self._seen = _Seen()
            lines += self._read(pod, query)
            lines += self._new_ends(pod)
        lines = [line for line in lines if (line.time or 0) >= (since or 0)]
        return [*(lines if tail is None else _last_of(lines, tail)), *self._take_notes()]

    def new_lines(self, ended: threading.Event) -> Iterator[LogLine]:
        """Yield new lines, across restarts, until the process has ended or its pod no longer exists."""
        missing_since: float | None = None
        while not ended.is_set():
            pods = self._pods()
            if pods:
                missing_since = None
                self._select(pods[-1])
                at_end = yield from self._stream(pods[-1], ended)
                latest, ends = self._ends_after(at_end, ended)
                yield from ends
                if latest and self._is_over(latest[0]):
                    yield from self._read(latest[0], _since(pod_status.epoch(self._seen.last)))
                    yield from self._take_notes()
                    return
            elif missing_since is None:
                missing_since = time.monotonic()
            elif time.monotonic() - missing_since > _REPLACED_WITHIN:
                return
            time.sleep(_POLL_SECONDS)

    def is_started_again(self, pods: Mapping[str, Body]) -> bool:
        """Return whether the process has a new pod, or was unblocked, since its log was read to the end."""
        pod = pods.get(self.container.pod)
        uid = text(pod, "metadata", "uid")
        return uid not in ("", self._uid) or self._state(pod) in ("waiting", "running")

    def _ends_after(self, at_end: bool, ended: threading.Event) -> tuple[list[Body], list[LogLine]]:
        """Return the newest pod after its log was read, and lines for the ends of starts.

        at_end: the log came to its end, so the node is about to report how the container ended.
        """
        until = time.monotonic() + _EXIT_STATUS_WITHIN
        while True:
            latest = self._pods()[-1:]
            ends = [line for pod in latest for line in self._new_ends(pod)]
            runs = any(map(self._runs, latest))
            if ends or not (at_end and runs) or ended.is_set() or time.monotonic() > until:
                return latest, ends
            time.sleep(_POLL_SECONDS / 2)

    def _state(self, pod: Body | None) -> State:
        return pod_status.status("", self.container.name, pod).state

    def _runs(self, pod: Body) -> bool:
        return self._state(pod) == "running"

    def _is_over(self, pod: Body) -> bool:
        state = self._state(pod)
        if state not in ("completed", "failed", "lost", "blocked", "stopped"):
            return False
        if state != "lost" and text(pod, "metadata", "deletionTimestamp"):
            # An `up` that restarts the process deletes its pod first.
            return False
        # The supervisor also holds the next pod of a stopped Job.
        if state not in ("failed", "lost") or not workloads.is_controlled(pod):
            return True
        return self.container.pod not in inventory.active_jobs(self._client, self._namespace)

    def _pods(self) -> list[Body]:
        """Return the pods of the process, the newest last; a Job creates several, one after another."""
        selector = f"{labels.POD}={self.container.pod}"
        items = self._client.items(path_of("pods", self._namespace), labelSelector=selector)
        return sorted(items, key=lambda pod: text(pod, "metadata", "creationTimestamp"))

    def _select(self, pod: Body) -> None:
        uid = text(pod, "metadata", "uid")
        if uid != self._uid:
            self._uid = uid
            self._seen = _Seen()

    def _read(self, pod: Body, query: dict[str, str]) -> list[LogLine]:
        """Return the lines of a pod so far; empty if its node did not answer before."""
        lines: list[LogLine] = []
        if self._uid in self._unread:
            return lines
        self._seen.begin_request()
        try:
            with self._client.stream(_log_of(pod), _SILENCE, **self._query(query)) as stream:
                for raw in stream:
                    lines += self._line(raw)
        except Refused as refused:
            if _is_unavailable(refused):
                self._unread[self._uid] = printable(" ".join(refused.what.split()), pod_status.LONGEST)
            elif not _has_no_log(refused):
                raise
        except (Unreachable, TimeoutError):
            # Raises if the API server itself does not answer.
            self._pods()
            self._unread[self._uid] = "the node does not answer"
        except OSError as error:
            what = f"the connection broke while reading the log of {self.container.path}: {error}"
            raise Unreachable(what, remedy="Run the same command again") from error
        return lines

    def _take_notes(self) -> list[LogLine]:
        """Return a line for every log that could not be read; each is reported once."""
        reasons = list(self._unread.values())
        self._unread.clear()
        path = self.container.path
        text = "could not read the log: {}"
        return [LogLine(path, text.format(why), time.time(), is_note=True) for why in reasons]

    def _stream(self, pod: Body, ended: threading.Event) -> Generator[LogLine, None, bool]:
        """Yield new lines; return whether a start has ended and its exit code is not known yet."""
        query = {"follow": "true", **_since(pod_status.epoch(self._seen.last) or self._from)}
        grew = False
        self._seen.begin_request()
        try:
            with self._client.stream(_log_of(pod), _SILENCE, **self._query(query)) as stream:
                for raw in stream:
                    # A truncated line is read again, whole.
                    if ended.is_set() or not raw.endswith(b"\n"):
                        return False
                    for line in self._line(raw):
                        grew = True
                        yield line
        except Refused as refused:
            if not (_has_no_log(refused) or _is_unavailable(refused)):
                raise
            return False
        except (Unreachable, OSError):
            # After silence or a broken connection, new_lines() asks again.
            return False
        return grew or self._runs(pod)

    def _query(self, more: dict[str, str]) -> dict[str, str | int]:
        return {"container": self.container.name, "timestamps": "true", **more}

    def _line(self, raw: bytes) -> list[LogLine]:
        whole = raw.decode("utf-8", "replace").rstrip("\r\n")
        stamp, _, content = whole.partition(" ")
        moment = pod_status.epoch(stamp)
        if moment is None:
            # A message from the node, such as why it has no log.
            stamp, content, moment = self._seen.last, whole, self._latest
        if not self._seen.add(stamp, content):
            return []
        self._latest = moment
        return [LogLine(self.container.path, content, self._latest)]

    def _new_ends(self, pod: Body, *, before: bool = False) -> list[LogLine]:
        """Return lines for starts that ended, each once; before: only starts before the present one."""
        lines: list[LogLine] = []
        uid = text(pod, "metadata", "uid")
        for ended in pod_status.ends(pod, self.container.name, before=before):
            stamp = str(ended.get("finishedAt"))
            if (uid, stamp) not in self._ends:
                self._ends.add((uid, stamp))
                how = f"ended: {pod_status.how_it_ended(ended)}"
                lines.append(LogLine(self.container.path, how, self._end_at(stamp), ended=True))
        return lines

    def _end_at(self, stamp: str) -> float:
        """Return the time of an end, not before the last line; the API server truncates it to seconds."""
        moment = pod_status.epoch(stamp)
        return self._latest if moment is None or moment <= self._latest < moment + 1 else moment


def _has_no_log(refused: Refused) -> bool:
    """Return whether a refusal means that the container has not started or no longer exists."""
    is_mistake = "parsing time" in refused.what or "is not valid for pod" in refused.what
    return refused.status == 404 or (refused.status == 400 and not is_mistake)


def _is_unavailable(refused: Refused) -> bool:
    """Return whether a refusal means that the node is away or the API server is busy."""
    return refused.status == 429 or refused.status >= 500


def _log_of(pod: Body) -> str:
    return f"{path_of('pods', text(pod, 'metadata', 'namespace'), text(pod, 'metadata', 'name'))}/log"


def _last_of(lines: list[LogLine], tail: int) -> list[LogLine]:
    """Return the last `tail` lines of a process, with the ends among them."""
    printed = [number for number, line in enumerate(lines) if not line.ended]
    if tail == 0 or not printed:
        return [line for line in lines[len(lines) - 1 :] if line.ended] if not tail else lines
    return lines[printed[max(0, len(printed) - tail)] :]


def _since(moment: float | None) -> dict[str, str]:
    """Return the query for lines since a moment; None, or a moment before the epoch, means all."""
    if moment is None or moment <= 0:
        return {}
    return {"sinceTime": datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
