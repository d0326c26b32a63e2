"""What goes to an API server and what comes back, with one that answers what a test tells it to."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from symphony.backends.kubernetes.api import client as client_module
from symphony.backends.kubernetes.api import kubeconfig, proxies
from symphony.backends.kubernetes.api.client import Forbidden, Refused, Unreachable
from symphony.errors import SymphonyError, UserError
from tests.backends.kubernetes.api.test_kubeconfig import access
from tests.backends.kubernetes.scripted_api import Answer, Asked, chunked, serving


def well(_: Asked) -> Answer:
    return 200, {"items": []}


def test_a_server_under_a_path_of_its_own_is_asked_there() -> None:
    with serving(well) as api:
        client = api.client("/k8s/clusters/c-1")
        client.get("/api/v1/pods", limit=1)
        with client.stream("/api/v1/pods", 5):
            pass
        assert api.paths("GET") == ["/k8s/clusters/c-1/api/v1/pods?limit=1", "/k8s/clusters/c-1/api/v1/pods"]
        assert client.target("/x/exec?stdin=true") == "/k8s/clusters/c-1/x/exec?stdin=true"


def test_an_exec_goes_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from symphony.backends.kubernetes.api.channels import Channels

    with serving(lambda _: (404, {"message": "nothing"})) as api:
        with pytest.raises(Refused):
            Channels(api.client("/k8s/clusters/c-1"), "/api/v1/x/exec", [("a", "b")], ["v5"])
        assert api.paths("GET") == ["/k8s/clusters/c-1/api/v1/x/exec?a=b"]


@pytest.mark.parametrize("cut", [0, 3], ids=["between two pieces", "in a piece"])
def test_an_answer_that_breaks_off_is_a_broken_connection(cut: int) -> None:
    result = chunked(b"one\n", b"tw", end=False)
    with (
        serving(lambda _: (200, result[: len(result) - cut])) as api,
        api.client().stream("/log", 5) as lines,
    ):
        assert next(lines) == b"one\n"
        with pytest.raises(OSError):
            list(lines)


def test_an_answer_that_is_whole_ends() -> None:
    for result in (chunked(b"one\n", b"two\n"), b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\none\ntwo\n"):
        with (
            serving(lambda _, message=result: (200, message)) as api,
            api.client().stream("/log", 5) as lines,
        ):
            assert list(lines) == [b"one\n", b"two\n"]


@pytest.mark.parametrize(("status", "kind"), [(403, Forbidden), (401, Refused), (500, Refused)])
def test_a_refusal_is_one_of_its_kind(status: int, kind: type[Refused]) -> None:
    with serving(lambda _: (status, {"message": "no"})) as api, pytest.raises(kind) as error:
        api.client().get("/x")
    assert error.value.remedy


@pytest.mark.parametrize(
    "message", [(302, b""), (200, b"<html>log in</html>"), (200, b"[]"), (204, b"")], ids=str
)
def test_what_is_no_api_server_is_told_so(message: Answer) -> None:
    head = f"HTTP/1.1 {message[0]} x\r\nContent-Length: {len(message[1])}\r\n\r\n".encode()
    with serving(lambda _: (message[0], head + message[1])) as api:
        with pytest.raises(Refused, match=f"not from a Kubernetes API server .status {message[0]}") as error:
            api.client().items("/x")
        assert error.value.remedy
        if message[0] == 302:
            with pytest.raises(Refused), api.client().stream("/x", 5):
                pass


def knows(token: str) -> object:
    def answer(asked: Asked) -> Answer:
        return (200, {"items": [1]}) if asked.headers.get("Authorization") == token else (401, {})

    return answer


def test_a_token_that_came_to_its_end_is_fetched_again_once() -> None:
    fetched: list[str] = []

    def renew() -> dict[str, str]:
        fetched.append("new")
        return {"Authorization": "new"}

    with serving(knows("new")) as api:  # pyright: ignore[reportArgumentType]
        client = api.client(headers={"Authorization": "old"}, renew=renew)
        assert client.items("/x") == client.items("/x") == [1]
        with client.stream("/x", 5):
            pass
        assert fetched == ["new"]
        streaming = api.client(headers={"Authorization": "old"}, renew=renew)
        with streaming.stream("/x", 5):
            assert fetched == ["new", "new"]
        hopeless = api.client(headers={"Authorization": "a"}, renew=lambda: {"Authorization": "b"})
        before = len(api.asked)
        with pytest.raises(Refused, match="does not know who you are"):
            hopeless.get("/x")
        assert len(api.asked) - before == 2


def test_an_auth_plugin_is_asked_again(tmp_path: Path) -> None:
    file = tmp_path / "plugin"
    count = tmp_path / "count"
    file.write_text(
        f'#!/bin/sh\necho x >> {count}\necho "{{\\"status\\": {{\\"token\\": \\"t$(wc -l < {count})\\"}}}}"\n'
    )
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    result = access({"exec": {"command": str(file), "apiVersion": "client.authentication.k8s.io/v1"}})
    assert result.headers == {"Authorization": "Bearer t1"}
    assert result.renew is not None
    assert result.renew() == {"Authorization": "Bearer t2"}
    assert access({"token": "t"}).renew is None


class TestProxy:
    @pytest.fixture(autouse=True)
    def clean(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("https_proxy", "http_proxy", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.upper(), raising=False)

    def test_the_environment_names_it_as_for_kubectl(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert proxies.chosen("https://10.0.0.1:6443", "") == ""
        monkeypatch.setenv("HTTPS_PROXY", "proxy.test:3128")
        assert access().proxy == "http://proxy.test:3128"
        assert proxies.chosen("https://k.test", "http://own:1") == "http://own:1"
        for local in ("https://127.0.0.1:6443", "https://localhost", "https://[::1]:6443", "http://10.0.0.1"):
            assert proxies.chosen(local, "") == ""

    @pytest.mark.parametrize(
        ("server", "no_proxy", "straight"),
        [
            ("https://10.1.2.3:6443", "x, 10.0.0.0/8", True),
            ("https://11.1.2.3:6443", "10.0.0.0/8", False),
            ("https://10.1.2.3", "10.1.2.3", True),
            ("https://k.corp.test", ".corp.test", True),
            ("https://k.corp.test", "*.corp.test", True),
            ("https://k.corp.test", "corp.test", True),
            ("https://kcorp.test", "corp.test", False),
            ("https://k.test:6443", "k.test:6443", True),
            ("https://k.test:6443", "*", True),
            ("https://k.test", ",", False),
        ],
    )
    def test_no_proxy_goes_round_it(
        self, monkeypatch: pytest.MonkeyPatch, server: str, no_proxy: str, straight: bool
    ) -> None:
        monkeypatch.setenv("https_proxy", "http://p:1")
        monkeypatch.setenv("NO_PROXY", no_proxy)
        assert (proxies.chosen(server, "") == "") is straight

    def test_its_credentials_are_sent_and_not_shown(self) -> None:
        assert proxies.credentials("http://p:1") == {}
        assert proxies.credentials("http://u:p%40s@p:1") == {"Proxy-Authorization": "Basic dTpwQHM="}
        with serving(lambda _: (403, {})) as api:
            port = api.url.rpartition(":")[2]
            result = access(None, **{"proxy-url": f"http://u:very-secret@127.0.0.1:{port}"})
            assert "very-secret" not in repr(result)
            from symphony.backends.kubernetes.api.client import Client

            with pytest.raises(OSError, match="403"):
                Client(result).connected(5)
            (asked,) = api.asked
            assert asked.verb == "CONNECT"
            assert asked.headers["Proxy-Authorization"] == "Basic dTp2ZXJ5LXNlY3JldA=="

    def test_one_that_we_do_not_speak_is_named(self) -> None:
        with pytest.raises(UserError, match="behind a socks5 proxy") as error:
            access(None, **{"proxy-url": "socks5://u:secret@p:1"})
        assert "secret" not in str(error.value)


@pytest.mark.parametrize("token", ["very-secret\n", " very-secret \r\n"])
def test_the_line_end_of_a_token_is_no_part_of_it(token: str) -> None:
    assert access({"token": token}).headers == {"Authorization": "Bearer very-secret"}


@pytest.mark.parametrize("token", ["very\nsecret", "very secret", "sécret", "secret\0"])
def test_a_token_that_is_none_is_not_shown(token: str) -> None:
    with pytest.raises(SymphonyError, match="token has invalid characters") as error:
        access({"token": token})
    assert "cret" not in str(error.value)


def test_a_plugin_that_gives_a_certificate_is_named(tmp_path: Path) -> None:
    file = tmp_path / "plugin"
    file.write_text(
        """#!/bin/sh\necho '{"status": {"clientCertificateData": "x", "clientKeyData": "y"}}'\n"""
    )
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(SymphonyError, match="returns a client certificate and no token") as error:
        access({"exec": {"command": str(file)}})
    assert "kubeconfig" in error.value.remedy


def test_lists_that_are_null_in_one_of_several_files_are_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    from tests.backends.kubernetes.api.test_kubeconfig import content

    (tmp_path / "a").write_text("users: null\nclusters:\ncontexts: nonsense\n")
    (tmp_path / "b").write_text(json.dumps(content({"token": "b"})))
    (tmp_path / "c").write_text("users: null\ncontexts: []\n")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'a'}:{tmp_path / 'b'}:{tmp_path / 'c'}")
    with pytest.raises(UserError, match='no context "a"'):
        kubeconfig.access()
    (tmp_path / "a").write_text("users: null\nclusters:\n")
    assert kubeconfig.access().headers == {"Authorization": "Bearer b"}


def test_a_server_that_is_away_is_waited_for_once_by_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PATIENCE", 0.5)
    with serving(lambda _: (200, b"")) as api:
        client = api.client()
        for _ in range(3):
            with pytest.raises(Unreachable):
                client.get("/x")
        tries = len(api.asked)
        assert tries < 4
        monkeypatch.setattr(client_module, "_AGAIN", 0.0)
        api.answer = well
        assert client.items("/x") == []
