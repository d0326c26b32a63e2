"""The client of the Kubernetes API, with a scripted HTTP server."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from symphony.backends.kubernetes.api import client as client_module
from symphony.backends.kubernetes.api.client import Forbidden, Refused, Unreachable, client_of
from tests.backends.kubernetes.scripted_api import Answer, Asked, chunked, serving


def empty_list(_: Asked) -> Answer:
    return 200, {"items": []}


def test_requests_keep_the_base_path_of_the_server_url() -> None:
    with serving(empty_list) as api:
        client = api.client("/k8s/clusters/c-1")
        client.get("/api/v1/pods", limit=1)
        with client.stream("/api/v1/pods", 5):
            pass
        assert api.paths("GET") == ["/k8s/clusters/c-1/api/v1/pods?limit=1", "/k8s/clusters/c-1/api/v1/pods"]
        assert client.target("/x/exec?stdin=true") == "/k8s/clusters/c-1/x/exec?stdin=true"


@pytest.mark.parametrize("cut", [0, 3], ids=["between two pieces", "in a piece"])
def test_a_truncated_response_raises_an_error(cut: int) -> None:
    result = chunked(b"one\n", b"tw", end=False)
    with (
        serving(lambda _: (200, result[: len(result) - cut])) as api,
        api.client().stream("/log", 5) as lines,
    ):
        assert next(lines) == b"one\n"
        with pytest.raises(OSError):
            list(lines)


def test_a_complete_response_ends_without_an_error() -> None:
    for result in (chunked(b"one\n", b"two\n"), b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\none\ntwo\n"):
        with (
            serving(lambda _, message=result: (200, message)) as api,
            api.client().stream("/log", 5) as lines,
        ):
            assert list(lines) == [b"one\n", b"two\n"]


@pytest.mark.parametrize(("status", "kind"), [(403, Forbidden), (401, Refused), (500, Refused)])
def test_each_http_error_status_raises_its_exception_with_a_remedy(status: int, kind: type[Refused]) -> None:
    with serving(lambda _: (status, {"message": "no"})) as api, pytest.raises(kind) as error:
        api.client().get("/x")
    assert error.value.remedy


@pytest.mark.parametrize(
    "answer", [(302, b""), (200, b"<html>log in</html>"), (200, b"[]"), (204, b"")], ids=str
)
def test_an_answer_that_is_not_from_an_api_server_is_refused(answer: Answer) -> None:
    head = f"HTTP/1.1 {answer[0]} x\r\nContent-Length: {len(answer[1])}\r\n\r\n".encode()
    with serving(lambda _: (answer[0], head + answer[1])) as api:
        with pytest.raises(Refused, match=f"not a Kubernetes API server .status {answer[0]}") as error:
            api.client().items("/x")
        assert error.value.remedy
        if answer[0] == 302:
            with pytest.raises(Refused), api.client().stream("/x", 5):
                pass


def accepts_only(token: str) -> object:
    def answer(asked: Asked) -> Answer:
        return (200, {"items": [1]}) if asked.headers.get("Authorization") == token else (401, {})

    return answer


def test_client_renews_an_expired_token_once(tmp_path: Path) -> None:
    """The exec plugin returns t1, then t2, and so on; the server accepts only t2."""
    file, count = tmp_path / "plugin", tmp_path / "count"
    file.write_text(
        f'#!/bin/sh\necho x >> {count}\necho "{{\\"status\\": {{\\"token\\": \\"t$(wc -l < {count})\\"}}}}"\n'
    )
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"command": str(file), "apiVersion": "client.authentication.k8s.io/v1"}}
    with serving(accepts_only("Bearer t2")) as api:  # pyright: ignore[reportArgumentType]
        client = client_of(api.kubeconfig(user=user), "")
        assert client.items("/x") == client.items("/x") == [1]
        with client.stream("/x", 5):
            pass
        assert count.read_text().count("x") == 2
        count.write_text("")
        streaming = client_of(api.kubeconfig("s", user), "")
        with streaming.stream("/x", 5):
            assert count.read_text().count("x") == 2
        before = len(api.asked)
        hopeless = client_of(api.kubeconfig("h", user), "")
        with pytest.raises(Refused, match="rejected your credentials"):
            hopeless.get("/x")
        assert len(api.asked) - before == 2


def test_later_requests_to_a_silent_server_fail_without_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PATIENCE", 0.5)
    with serving(lambda _: (200, b"")) as api:
        client = api.client()
        for _ in range(3):
            with pytest.raises(Unreachable):
                client.get("/x")
        tries = len(api.asked)
        assert tries < 4
        monkeypatch.setattr(client_module, "_RETRY_AFTER", 0.0)
        api.answer = empty_list
        assert client.items("/x") == []
