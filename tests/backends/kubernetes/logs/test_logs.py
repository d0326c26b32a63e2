"""Pod logs from a scripted API server that cuts off lines, delays them, or answers with errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from symphony.backends.kubernetes import logs as reader
from symphony.backends.kubernetes import pod_status
from symphony.backends.kubernetes.api.client import Refused
from symphony.backends.kubernetes.logs import Container
from symphony.backends.kubernetes.manifests import labels
from symphony.backends.observe import LogLine
from symphony.errors import SymphonyError
from tests.backends.kubernetes.scripted_api import Answer, Api, Asked, chunked, serving, thing

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


def lines(api: Api, *, follow: bool = False, since: float | None = None) -> list[str]:
    result = reader.merge(api.client(), "n", [CONTAINER], follow=follow, since=since, tail=None)
    return [line.text for line in result if not line.ended]


def stamped(*moments: int, zone: str = "Z") -> bytes:
    return b"".join(b"2026-01-01T00:00:%02d.000000001%s n %d\n" % (n, zone.encode(), n) for n in moments)


def test_since_drops_earlier_lines() -> None:
    with serving(Node(chunked(stamped(1, 2, 3)))) as api:
        assert lines(api, since=pod_status.epoch("2026-01-01T00:00:02Z")) == ["n 2", "n 3"]
        assert lines(api, since=pod_status.epoch("2026-01-01T00:00:04Z")) == []


@pytest.mark.parametrize("cut", [4, 0], ids=["in a line", "in a piece"])
def test_a_line_cut_off_by_a_broken_stream_is_printed_once_and_whole(cut: int) -> None:
    whole = stamped(1, 2, 3)
    broken = chunked(whole[: len(whole) - 4], end=cut == 4)
    node = Node(chunked(stamped(1)), broken, chunked(stamped(2, 3)), chunked(stamped(3)))
    with serving(node) as api:
        assert lines(api, follow=True) == ["n 1", "n 2", "n 3"]


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
        result = reader.merge(api.client(), "n", [CONTAINER], follow=True, since=None, tail=None)
        expected = ["n 1", "ended: exit 137 (SIGKILL)", "n 3", "n 4", "ended: exit 0"]
        assert [line.text for line in result] == expected


def test_a_last_line_without_newline_is_printed() -> None:
    with serving(Node(chunked(stamped(1) + b"2026-01-01T00:00:02.1Z loading"))) as api:
        assert lines(api) == ["n 1", "loading"]


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


def test_a_restarted_process_is_followed_while_another_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "_LOOK_AGAIN", 0.1)
    states, uids = {"a": RUNNING, "b": ENDED}, {"a": "a", "b": "first"}
    logs = {"a": stamped(1), "first": stamped(2), "second": stamped(3)}

    def pod(name: str) -> dict[str, Any]:
        node = Node()
        node.state = states[name]
        made = node.pod()
        named = {"name": name, "uid": uids[name], "labels": {labels.POD: name}}
        return {**made, "metadata": {**made["metadata"], **named}}

    def answer(asked: Asked) -> Answer:
        place = urlsplit(asked.path)
        if place.path.endswith("/log"):
            uid = uids[place.path.split("/")[-2]]
            if uid == "second":
                states["a"] = ENDED
            return 200, chunked(logs[uid])
        (selector,) = parse_qs(place.query)["labelSelector"]
        if selector == labels.OURS:
            uids["b"] = "second"
        return 200, {
            "items": [pod(each) for each in "ab" if selector in (labels.OURS, f"{labels.POD}={each}")]
        }

    containers = [Container(each, each, "a") for each in "ab"]
    with serving(answer) as api:
        result = reader.merge(api.client(), "n", containers, follow=True, since=None, tail=None)
        printed = {line.text for line in result if not line.ended}
    assert printed == {"n 1", "n 2", "n 3"}


@pytest.mark.parametrize("words", ['parsing time "x" as "2006"', "container a is not valid for pod a"])
def test_a_permanently_refused_log_request_is_an_error(words: str) -> None:
    with serving(Node((400, {"message": words}))) as api, pytest.raises(Refused):
        lines(api, follow=True)


def test_following_waits_for_a_container_that_has_not_started() -> None:
    node = Node((400, {"message": 'container "a" in pod "a" is waiting to start'}), chunked(stamped(1)))
    with serving(node) as api:
        assert lines(api, follow=True) == ["n 1"]


def test_an_interrupted_log_without_follow_is_an_error() -> None:
    node = Node(chunked(stamped(1), end=False))
    with serving(node) as api, pytest.raises(SymphonyError, match="connection broke"):
        lines(api)


def test_an_exception_in_the_reader_thread_is_raised_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def new_lines(self: Any, ended: threading.Event) -> Iterator[LogLine]:
        raise ZeroDivisionError

    monkeypatch.setattr("symphony.backends.kubernetes.logs._Reader.new_lines", new_lines)
    with serving(Node(chunked())) as api, pytest.raises(ZeroDivisionError):
        lines(api, follow=True)
