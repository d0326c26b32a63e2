"""Pod logs from a scripted API server: broken streams, silent nodes, late ends; each line is printed once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from symphony.backends.kubernetes import logs as reader
from symphony.backends.kubernetes import pod_status, supervisor
from symphony.backends.kubernetes.api.client import Refused, Unreachable
from symphony.backends.kubernetes.logs import Container
from symphony.backends.kubernetes.manifests import labels
from symphony.errors import SymphonyError
from tests.backends.kubernetes.scripted_api import MISSING, Answer, Api, Asked, chunked, serving, thing

CONTAINER = Container("a", "a", "a")
RUNNING: dict[str, Any] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
ENDED: dict[str, Any] = {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T01:00:00Z"}}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMPHONY_HOME", str(tmp_path))
    monkeypatch.setattr(reader, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(reader, "_EXIT_STATUS_WITHIN", 0.1)


class Node:
    """One pod with one container, and the answers of its log endpoint in turn; the last one repeats."""

    def __init__(self, *answers: Answer | bytes) -> None:
        self.answers = list(answers)
        self.state = RUNNING
        self.asked: list[dict[str, list[str]]] = []

    def __call__(self, asked: Asked) -> Answer:
        place = urlsplit(asked.path)
        if not place.path.endswith("/log"):
            return 200, {"items": [self.pod()]}
        self.asked.append(parse_qs(place.query))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if len(self.answers) == 1:
            self.state = ENDED
        return (200, answer) if isinstance(answer, bytes) else answer

    def pod(self) -> dict[str, Any]:
        status = {"name": "a", "restartCount": 0, "state": self.state, "ready": False}
        phase = "Running" if self.state is RUNNING else "Succeeded"
        return thing(
            "Pod",
            "a",
            owner="o",
            spec={"containers": [{"name": "a"}]},
            status={"phase": phase, "containerStatuses": [status]},
        )


def has_ended() -> bool:
    """Return that no process lives and no command restarts one."""
    return False


def lines(api: Api, *, follow: bool = False, since: float | None = None) -> list[str]:
    result = reader.merge(
        api.client(), "n", [CONTAINER], alive=has_ended if follow else None, since=since, tail=None
    )
    return [line.text for line in result if not line.ended]


def texts(api: Api, *names: str, follow: bool = False, tail: int | None = None) -> list[str]:
    containers = [Container(name, name, name) for name in names or ["a"]]
    result = reader.merge(
        api.client(), "n", containers, alive=has_ended if follow else None, since=None, tail=tail
    )
    return [line.text for line in result]


def stamped(*moments: int, zone: str = "Z") -> bytes:
    return b"".join(b"2026-01-01T00:00:%02d.000000001%s n %d\n" % (n, zone.encode(), n) for n in moments)


AWAY: Answer = (500, {"message": 'Get "https://node:10250/containerLogs/n/a/a": dial tcp:\nno route to host'})
NOT_READ = 'could not read the log: Get "https://node:10250/containerLogs/n/a/a": dial tcp: no route to host'
NOT_STARTED: Answer = (400, {"message": 'container "a" in pod "a" is waiting to start'})
THREE = stamped(1, 2, 3)
LONG = b"2026-01-01T00:00:01.1Z xxxxx\n2026-01-01T00:00:02.5Z n 2\n"
ENDS = "ended: exit 0"


class Restarted(Node):
    """A container that died at second `died_at` and was restarted."""

    died_at = 2

    def pod(self) -> dict[str, Any]:
        pod = super().pod()
        died = {"exitCode": 5, "finishedAt": f"2026-01-01T00:00:{self.died_at:02d}Z"}
        more = {"restartCount": 1, "lastState": {"terminated": died}}
        pod["status"]["containerStatuses"][0].update(more)
        return pod


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        # The stream breaks in a line, or in a piece of the response.
        ([stamped(1), THREE[:-4], stamped(2, 3), stamped(3)], ["n 1", "n 2", "n 3", ENDS]),
        (
            [stamped(1), chunked(THREE[:-4], end=False), stamped(2, 3), stamped(3)],
            ["n 1", "n 2", "n 3", ENDS],
        ),
        # The clock of the node steps back.
        (
            [stamped(5), chunked(stamped(5, 6, 2), end=False), stamped(2, 3), stamped(3)],
            ["n 5", "n 6", "n 2", "n 3", ENDS],
        ),
        # The next request begins amid a line, with the time of its last piece.
        (
            [LONG, chunked(b"2026-01-01T00:00:02.2Z xxx\n" + LONG[-27:] + stamped(3), end=False), stamped(3)],
            ["xxxxx", "n 2", "n 3", ENDS],
        ),
        # The node is away for a while, or at first.
        ([stamped(1), AWAY, (429, AWAY[1]), stamped(1, 2), stamped(2)], ["n 1", "n 2", ENDS]),
        ([AWAY, stamped(2, 3), stamped(3)], [NOT_READ, "n 2", "n 3", ENDS]),
        ([NOT_STARTED, stamped(1)], ["n 1", ENDS]),
    ],
    ids=["cut line", "cut piece", "clock", "long line", "away", "away at first", "not started"],
)
def test_following_prints_each_line_once_and_whole(answers: list[Any], expected: list[str]) -> None:
    sent = [
        each if isinstance(each, tuple) or each.startswith(b"HTTP") else chunked(each) for each in answers
    ]
    with serving(Node(*sent)) as api:
        assert texts(api, follow=True) == expected


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([chunked(stamped(1)), chunked(stamped(4, 40)), b""], ["n 1", "ended: exit 5", "n 4", "n 40"]),
        ([MISSING, chunked(stamped(4, 40)), b""], ["ended: exit 5", "n 4", "n 40"]),
    ],
    ids=["kept", "gone"],
)
def test_the_exit_of_a_container_is_printed_before_lines_after_its_restart(
    answers: list[Any], expected: list[str]
) -> None:
    with serving(Restarted(*answers)) as api:
        assert texts(api) == expected


def test_a_last_line_without_newline_is_printed() -> None:
    with serving(Node(chunked(stamped(1) + b"2026-01-01T00:00:02.1Z loading"), b"")) as api:
        assert lines(api) == ["n 1", "loading"]


def test_since_drops_earlier_lines() -> None:
    with serving(Node(chunked(stamped(1, 2, 3)))) as api:
        assert lines(api, since=pod_status.epoch("2026-01-01T00:00:02Z")) == ["n 2", "n 3"]
        assert lines(api, since=pod_status.epoch("2026-01-01T00:00:04Z")) == []


def test_following_continues_with_the_new_pod_after_up_replaced_it() -> None:
    """The pod is deleted, is gone for a while, and comes back under the same name."""
    going = {"deletionTimestamp": "2026-01-01T00:00:02Z"}
    killed = {"terminated": {"exitCode": 137, "finishedAt": "2026-01-01T00:00:02Z"}}

    class Replaced(Node):
        looks = 0

        def __call__(self, asked: Asked) -> Answer:
            if urlsplit(asked.path).path.endswith("/log"):
                return super().__call__(asked)
            self.looks += len(self.asked) > 1
            pod = self.pod()
            if self.looks and self.looks < 4:
                self.state = killed
                pod = {**self.pod(), "metadata": {**pod["metadata"], **going}}
            elif self.looks == 5:
                self.state = RUNNING
            elif self.looks > 5:
                pod["metadata"]["uid"] = "another"
            return 200, {"items": [] if self.looks in (4, 5) else [pod]}

    node = Replaced(*[chunked(stamped(1))] * 3, chunked(stamped(3)), chunked(stamped(3, 4)), chunked())
    with serving(node) as api:
        result = reader.merge(api.client(), "n", [CONTAINER], alive=has_ended, since=None, tail=None)
        expected = ["n 1", "ended: exit 137 (SIGKILL)", "n 3", "n 4", "ended: exit 0"]
        assert [line.text for line in result] == expected


def test_following_continues_with_the_new_pod_of_an_ended_process_while_up_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "_LOOK_AGAIN", 0.0)

    class Ended(Node):
        uid = "u"

        def pod(self) -> dict[str, Any]:
            pod = super().pod()
            pod["metadata"]["uid"] = self.uid
            return pod

    def up_runs() -> bool:
        has_replaced, node.uid = node.uid == "another", "another"
        node.answers[0] = chunked(stamped(2))
        return not has_replaced

    node = Ended(chunked(stamped(1)))
    with serving(node) as api:
        result = reader.merge(api.client(), "n", [CONTAINER], alive=up_runs, since=None, tail=None)
        assert [line.text for line in result if not line.ended] == ["n 1", "n 2"]


def test_following_resumes_correctly_with_timestamps_in_another_time_zone() -> None:
    early, late = stamped(1, 2, zone="+01:00"), stamped(2, 3, zone="+01:00")
    node = Node(chunked(early), chunked(late), chunked(stamped(3, zone="+01:00")))
    with serving(node) as api:
        assert lines(api, follow=True) == ["n 1", "n 2", "n 3"]
    assert node.asked[1]["sinceTime"] == ["2025-12-31T23:00:02Z"]
    assert node.asked[2]["sinceTime"] == ["2025-12-31T23:00:03Z"]


def test_a_line_without_timestamp_from_the_node_is_printed() -> None:
    words = b"unable to retrieve container logs for containerd://1\n"
    node = Node(chunked(stamped(1) + words), chunked(stamped(1, 2)), chunked(stamped(2)))
    with serving(node) as api:
        assert lines(api, follow=True) == ["n 1", words.decode().strip(), "n 2"]
    assert node.asked[1]["sinceTime"] == ["2026-01-01T00:00:01Z"]


@pytest.mark.parametrize("words", ['parsing time "x" as "2006"', "container a is not valid for pod a"])
def test_a_permanently_refused_log_request_is_an_error(words: str) -> None:
    with serving(Node((400, {"message": words}))) as api, pytest.raises(Refused):
        lines(api, follow=True)


def test_an_interrupted_log_without_follow_is_an_error() -> None:
    node = Node(chunked(stamped(1), end=False))
    with serving(node) as api, pytest.raises(SymphonyError, match="connection broke"):
        lines(api)


# Two lines in the same microsecond.
STAMPS = (b"100000000Z", b"123456100Z", b"123456789Z", b"200000000Z")
EXIT_STATUS_WITHIN: float = vars(reader)["_EXIT_STATUS_WITHIN"]


@pytest.fixture
def never_answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], bytes]]:
    """Return an answer that never comes, and shorten the deadlines of the reader."""
    monkeypatch.setattr(reader, "_SILENCE", 0.2)
    monkeypatch.setattr(reader, "_LAST_LINES_DEADLINE", 0.2)
    over = threading.Event()

    def nothing() -> bytes:
        over.wait(20)
        return b""

    yield nothing
    over.set()


@pytest.mark.parametrize(
    ("tail", "expected"), [(1, ["n 3", "n 4"]), (2, ["n 2", "n 3", "n 4"]), (0, ["n 4"])]
)
def test_older_lines_of_the_same_second_are_not_printed_again(tail: int, expected: list[str]) -> None:
    """The server truncates sinceTime to whole seconds, and sends older lines of that second again."""
    log_lines = [b"2026-01-01T00:00:01.%s n %d\n" % (stamp, n) for n, stamp in enumerate(STAMPS, 1)]

    class Tailing(Node):
        def __call__(self, asked: Asked) -> Answer:
            query = parse_qs(urlsplit(asked.path).query)
            if not urlsplit(asked.path).path.endswith("/log"):
                return super().__call__(asked)
            self.asked.append(query)
            if "follow" in query:
                self.state = ENDED
            sent = log_lines if "follow" in query else log_lines[:3]
            most = int(query.get("tailLines", ["9"])[0])
            return 200, chunked(*sent[max(0, len(sent) - most) :])

    with serving(Tailing()) as api:
        result = reader.merge(api.client(), "n", [CONTAINER], alive=has_ended, since=None, tail=tail)
        assert [line.text for line in result if not line.ended] == expected


class TwoPods:
    """Two processes, a and b, each in a pod of its name, and what the log endpoint of each answers."""

    def __init__(self, **of: Callable[[], Answer | bytes]) -> None:
        self.of = of
        self.state = RUNNING

    def __call__(self, asked: Asked) -> Answer:
        place = urlsplit(asked.path)
        if place.path.endswith("/log"):
            answer = self.of[place.path.split("/")[-2]]()
            return (200, answer) if isinstance(answer, bytes) else answer
        name = parse_qs(place.query)["labelSelector"][0].rpartition("=")[2]
        return 200, {"items": [self.pod(name)]}

    def pod(self, name: str) -> dict[str, Any]:
        status = {"name": name, "restartCount": 0, "state": self.state, "ready": False}
        phase = "Running" if self.state is RUNNING else "Succeeded"
        more = {"phase": phase, "containerStatuses": [status]}
        return thing("Pod", name, name, "o", spec={"containers": [{"name": name}]}, status=more)


@pytest.mark.parametrize("why", [supervisor.COMPLETED, "the time limit of 30 s (stop_after) is over"])
def test_following_ends_with_a_pod_that_the_supervisor_has_stopped(why: str) -> None:
    class Stopped(Node):
        def pod(self) -> dict[str, Any]:
            pod = super().pod()
            if self.state is not RUNNING:
                notes = {supervisor.STOPPED: why, supervisor.STOPPED_AT: "1767225600"}
                pod["metadata"]["annotations"] |= notes
                pod["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "a", "controller": True}]
                pod["status"]["phase"] = "Failed"
            return pod

    with serving(Stopped(chunked(stamped(1)), chunked(stamped(2)))) as api:
        assert texts(api, follow=True) == ["n 1", "n 2", ENDS]


def test_following_continues_with_a_blocked_process_that_starts_while_another_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "_LOOK_AGAIN", 0.0)

    class Blocked(TwoPods):
        is_blocked = True

        def __call__(self, asked: Asked) -> Answer:
            if urlsplit(asked.path).path.endswith("/log"):
                return super().__call__(asked)
            selected = parse_qs(urlsplit(asked.path).query)["labelSelector"][0]
            if selected == labels.OURS:
                # The reader looks whether `b`, which it no longer follows, was started again.
                self.is_blocked = False
            names = "ab" if selected == labels.OURS else selected[-1]
            return 200, {"items": [self.pod(name) for name in names]}

        def pod(self, name: str) -> dict[str, Any]:
            pod = super().pod(name)
            if name == "b" and self.is_blocked:
                pod["metadata"]["annotations"][supervisor.BLOCKED] = "a is not ready after 9 s"
                pod["spec"]["schedulingGates"] = [{"name": supervisor.GATE}]
            return pod

    def answer_b() -> Answer | bytes:
        if pair.is_blocked:
            return NOT_STARTED
        pair.state = ENDED
        return chunked(stamped(2))

    pair = Blocked(a=lambda: chunked(stamped(1)), b=answer_b)
    with serving(pair) as api:
        assert [text for text in texts(api, "a", "b", follow=True) if text != ENDS] == ["n 1", "n 2"]


def test_an_unreachable_node_costs_only_the_logs_of_its_own_pods() -> None:
    with serving(TwoPods(a=lambda: AWAY, b=lambda: chunked(stamped(1, 2, 3)))) as api:
        assert texts(api, "a", "b") == ["n 1", "n 2", "n 3", NOT_READ]
        assert texts(api, "a", tail=1) == [NOT_READ]


def test_a_log_request_that_hangs_does_not_block_other_logs(never_answers: Callable[[], bytes]) -> None:
    with serving(TwoPods(a=never_answers, b=lambda: chunked(stamped(1)))) as api:
        assert texts(api, "a", "b") == ["n 1", "could not read the log: the node does not answer"]


def test_an_unreachable_api_server_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symphony.backends.kubernetes.api.client.PATIENCE", 0.1)
    pair = TwoPods(a=lambda: b"")

    def answer(asked: Asked) -> Answer:
        return pair(asked) if len(api.asked) == 1 else (200, b"")

    with serving(answer) as api, pytest.raises(Unreachable, match="does not answer"):
        texts(api, "a")


def test_logs_without_the_right_to_read_them_are_refused() -> None:
    with serving(TwoPods(a=lambda: (403, {"message": "cannot get pods/log"}))) as api, pytest.raises(Refused):
        texts(api, "a")


def test_following_survives_a_silent_node(never_answers: Callable[[], bytes]) -> None:
    answers: list[Callable[[], Answer | bytes]] = [
        lambda: chunked(stamped(1)),
        never_answers,
        lambda: chunked(stamped(1, 2)),
        lambda: chunked(stamped(2)),
    ]

    def answer() -> Answer | bytes:
        if len(answers) == 1:
            pair.state = ENDED
        return (answers.pop(0) if len(answers) > 1 else answers[0])()

    pair = TwoPods(a=answer)
    with serving(pair) as api:
        assert texts(api, follow=True) == ["n 1", "n 2", "ended: exit 0"]


def test_following_waits_for_a_late_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node reports the exit status five seconds after the log ended."""
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    class Late(Restarted):
        def pod(self) -> dict[str, Any]:
            if len(self.asked) == 2:
                late.append(clock[0])
            result = bool(late) and clock[0] > late[0] + 5
            return super().pod() if result else Node.pod(self)

    late: list[float] = []
    monkeypatch.setattr(reader, "_EXIT_STATUS_WITHIN", EXIT_STATUS_WITHIN)
    monkeypatch.setattr(reader, "_POLL_SECONDS", 0.5)
    fake = SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep, time=time.time)
    monkeypatch.setattr(reader, "time", fake)
    node = Late(chunked(stamped(1)), chunked(stamped(1, 2)), chunked(stamped(4)), chunked(stamped(4)))
    with serving(node) as api:
        assert texts(api, follow=True) == ["n 1", "n 2", "ended: exit 5", "n 4", "ended: exit 0"]


@pytest.mark.parametrize("since", [-84_604_532_493.5, float("-inf")], ids=["999999d", "for ever"])
def test_since_a_time_before_the_epoch_prints_everything(since: float) -> None:
    node = Node(chunked(stamped(1, 2)), b"")
    with serving(node) as api:
        assert lines(api, since=since) == ["n 1", "n 2"]
    assert "sinceTime" not in node.asked[0]


def test_logs_of_a_deleted_pod_say_that_the_pod_is_gone() -> None:
    with serving(lambda _: (200, {"items": []})) as api:
        assert lines(api) == ["could not read the log: the pod no longer exists"]
