"""Pod logs with a clock that steps back, a silent node, a late exit status: each line is printed once."""

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
from symphony.backends.kubernetes.api.client import Refused, Unreachable
from symphony.backends.kubernetes.logs import Container
from tests.backends.kubernetes.logs.test_logs import CONTAINER, ENDED, RUNNING, Node, lines, stamped
from tests.backends.kubernetes.scripted_api import Answer, Api, Asked, chunked, serving, thing

AWAY: Answer = (500, {"message": 'Get "https://node:10250/containerLogs/n/a/a": dial tcp:\nno route to host'})
NOT_READ = 'could not read the log: Get "https://node:10250/containerLogs/n/a/a": dial tcp: no route to host'
# Two lines in the same microsecond.
STAMPS = (b"100000000Z", b"123456100Z", b"123456789Z", b"200000000Z")
EXIT_STATUS_WITHIN: float = vars(reader)["_EXIT_STATUS_WITHIN"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMPHONY_HOME", str(tmp_path))
    monkeypatch.setattr(reader, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(reader, "_EXIT_STATUS_WITHIN", 0.1)


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

    class Again(Tailing, Restarted):
        """A node whose previous start printed a line, a second earlier."""

        def __call__(self, asked: Asked) -> Answer:
            if "previous=true" in asked.path:
                return 200, chunked(stamped(0))
            return super().__call__(asked)

    for node in (Tailing(), Again()):
        with serving(node) as api:
            result = reader.merge(api.client(), "n", [CONTAINER], follow=True, since=None, tail=tail)
            printed = [line.text for line in result if not line.ended and line.text != "n 0"]
            assert printed == expected


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
        status = {"name": name, "restartCount": 0, "state": self.state, "ready": False}
        phase = "Running" if self.state is RUNNING else "Succeeded"
        more = {"phase": phase, "containerStatuses": [status]}
        return 200, {"items": [thing("Pod", name, name, spec={"containers": [{"name": name}]}, status=more)]}


def texts(api: Api, *names: str, follow: bool = False, tail: int | None = None) -> list[str]:
    containers = [Container(name, name, name) for name in names or ["a"]]
    result = reader.merge(api.client(), "n", containers, follow=follow, since=None, tail=tail)
    return [line.text for line in result]


def test_following_loses_no_line_when_the_clock_of_the_node_steps_back() -> None:
    node = Node(
        chunked(stamped(5)), chunked(stamped(5, 6, 2), end=False), chunked(stamped(2, 3)), chunked(stamped(3))
    )
    with serving(node) as api:
        assert lines(api, follow=True) == ["n 5", "n 6", "n 2", "n 3"]
    assert node.asked[2]["sinceTime"] == ["2026-01-01T00:00:02Z"]


@pytest.mark.parametrize("status", [500, 429])
def test_an_unreachable_node_costs_only_the_logs_of_its_own_pods(status: int) -> None:
    with serving(TwoPods(a=lambda: (status, AWAY[1]), b=lambda: chunked(stamped(1, 2, 3)))) as api:
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


@pytest.mark.parametrize("status", [500, 429])
def test_following_resumes_when_the_node_is_back(status: int) -> None:
    away = (status, AWAY[1])
    node = Node(chunked(stamped(1)), away, away, chunked(stamped(1, 2)), chunked(stamped(2)))
    with serving(node) as api:
        assert texts(api, follow=True) == ["n 1", "n 2", "ended: exit 0"]


def test_following_prints_the_log_of_a_node_that_answers_late() -> None:
    node = Node(AWAY, chunked(stamped(2, 3)), chunked(stamped(3)))
    with serving(node) as api:
        assert texts(api, follow=True) == [NOT_READ, "n 2", "n 3", "ended: exit 0"]


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


def test_last_lines_are_empty_when_the_server_is_silent(never_answers: Callable[[], bytes]) -> None:
    with serving(TwoPods(a=never_answers)) as api:
        assert reader.last_lines(api.client(), "n", "a", "a", 5, previous=False) == []


def test_the_exit_of_a_container_is_printed_before_lines_after_its_restart() -> None:
    with serving(Restarted(chunked(stamped(1)), chunked(stamped(4, 40)), b"")) as api:
        assert texts(api) == ["n 1", "ended: exit 5", "n 4", "n 40"]
    with serving(Restarted((404, {"message": "gone"}), chunked(stamped(4, 40)), b"")) as api:
        assert texts(api) == ["ended: exit 5", "n 4", "n 40"]


def test_lines_and_exits_before_and_after_a_restart_are_printed_in_order() -> None:
    class Twice(Restarted):
        def pod(self) -> dict[str, Any]:
            pod = super().pod()
            ended = {"terminated": {"exitCode": 6, "finishedAt": "2026-01-01T00:00:05Z"}}
            pod["status"]["containerStatuses"][0]["state"] = ended
            pod["status"]["phase"] = "Running"
            return pod

    with serving(Twice(chunked(stamped(1)), chunked(stamped(4)), b"")) as api:
        assert texts(api) == ["n 1", "ended: exit 5", "n 4", "ended: exit 6"]


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


def test_following_does_not_wait_for_an_exit_status_it_already_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """The previous start has ended and the next one already runs."""
    monkeypatch.setattr(reader, "_EXIT_STATUS_WITHIN", 30.0)

    class Between(Restarted):
        def pod(self) -> dict[str, Any]:
            pod = super().pod()
            if len(self.asked) < 3:
                waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
                pod["status"]["containerStatuses"][0]["state"] = waiting
            return pod

    first = chunked(stamped(1))
    node = Between(first, first, first, chunked(stamped(4)), chunked(stamped(4)))
    began = time.monotonic()
    with serving(node) as api:
        assert texts(api, follow=True) == ["n 1", "ended: exit 5", "n 4", "ended: exit 0"]
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("since", [-84_604_532_493.5, float("-inf")], ids=["999999d", "for ever"])
def test_since_a_time_before_the_epoch_prints_everything(since: float) -> None:
    node = Node(chunked(stamped(1, 2)), b"")
    with serving(node) as api:
        assert lines(api, since=since) == ["n 1", "n 2"]
    assert "sinceTime" not in node.asked[0]


def test_logs_of_a_deleted_pod_say_that_the_pod_is_gone() -> None:
    with serving(lambda _: (200, {"items": []})) as api:
        assert lines(api) == ["could not read the log: the pod no longer exists"]
