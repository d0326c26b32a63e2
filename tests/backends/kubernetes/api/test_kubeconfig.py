"""symphony reads a kubeconfig as kubectl does; an error in it is reported in one line."""

from __future__ import annotations

import json
import os
import socket
import ssl
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from symphony.backends.kubernetes.api import client as client_module
from symphony.backends.kubernetes.api import kubeconfig
from symphony.backends.kubernetes.api.channels import Channels
from symphony.backends.kubernetes.api.client import Client, Unreachable
from symphony.errors import SymphonyError, UserError
from tests.backends.kubernetes.scripted_api import serving
from tests.sandbox import wait_for


def content(user: dict[str, Any] | None = None, /, name: str = "a", **cluster: Any) -> dict[str, Any]:
    return {
        "clusters": [{"name": name, "cluster": {"server": "https://10.0.0.1:6443/", **cluster}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "users": [{"name": name, "user": user or {}}],
        "current-context": name,
    }


def access(user: dict[str, Any] | None = None, /, **cluster: Any) -> kubeconfig.Access:
    return kubeconfig.access(json.dumps(content(user, **cluster)))


def authorization(user: dict[str, Any]) -> str | None:
    return access(user).headers.get("Authorization")


def test_access_has_server_context_headers_and_proxy() -> None:
    result = access({"token": "t"}, **{"tls-server-name": "kube", "proxy-url": "http://p:1"})
    assert (result.server, result.context, result.server_name) == ("https://10.0.0.1:6443", "a", "kube")
    assert result.headers == {"Authorization": "Bearer t"}
    assert result.pool.proxy is not None
    assert result.pool.proxy.host == "p"
    assert "very-secret" not in repr(access({"token": "very-secret"}))
    assert authorization({"token": " very-secret \r\n"}) == "Bearer very-secret"


def test_certificate_authorities_are_not_checked_more_strictly_than_by_kubectl(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python 3.13 and newer check authorities more strictly by default."""

    def strict(**authority: Any) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    trust = access().trust
    assert trust is not None
    assert not trust.verify_flags & ssl.VERIFY_X509_STRICT


def test_password_and_token_file_give_the_authorization_header(tmp_path: Path) -> None:
    assert authorization({"username": "u", "password": "p"}) == "Basic dTpw"
    (tmp_path / "token").write_text("from-file\n")
    (tmp_path / "config").write_text(json.dumps(content({"tokenFile": "token", "token": "older"})))
    assert kubeconfig.access(str(tmp_path / "config")).headers == {"Authorization": "Bearer from-file"}


def test_current_context_comes_from_the_first_file_in_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(json.dumps(content({"token": name}, name=name)))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}:{tmp_path / 'a'}:{tmp_path / 'b'}")
    assert kubeconfig.access().context == "a"
    assert kubeconfig.access("", "b").headers == {"Authorization": "Bearer b"}


def plugin(tmp_path: Path, text: str) -> dict[str, Any]:
    file = tmp_path / "plugin"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"command": str(file), "apiVersion": "client.authentication.k8s.io/v1"}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo no session >&2; exit 1", "returned no credentials: no session"),
        # The error of gcloud without a login.
        (
            "printf 'failed (err: ERROR: (g) No account.\n\nto use.\n)' >&2; exit 1",
            r"no credentials: \(g\) No account\. Log in",
        ),
        ("echo nonsense", "returned no credentials"),
    ],
)
def test_the_error_quotes_a_failed_exec_plugin(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SymphonyError, match=words):
        access(plugin(tmp_path, text))


def test_a_silent_exec_plugin_is_waited_for_once_and_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubeconfig, "TOKEN_DEADLINE", 0.5)
    silent = plugin(tmp_path, f"echo $$ >> {tmp_path}/pids; sleep 7654321; :")
    for _ in range(2):
        with pytest.raises(SymphonyError, match="returned no credentials within"):
            access(silent)
    (pid,) = (tmp_path / "pids").read_text().split()
    wait_for(lambda: not any(is_in_group(pid)), 5, "the plugin has ended with its children")


def is_in_group(pid: str) -> Iterator[bool]:
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            yield os.getpgid(process.pid) == int(pid) and process.status() != psutil.STATUS_ZOMBIE


def test_an_exec_plugin_beside_the_kubeconfig_runs_from_every_folder(tmp_path: Path) -> None:
    user = plugin(tmp_path, "echo no session >&2; exit 1")
    user["exec"]["command"] = "./plugin"
    (tmp_path / "config").write_text(json.dumps(content(user)))
    with pytest.raises(SymphonyError, match="returned no credentials: no session"):
        kubeconfig.access(str(tmp_path / "config"))


def test_the_error_names_a_missing_exec_plugin_with_its_install_hint() -> None:
    with pytest.raises(SymphonyError, match="needs gke-auth-nowhere, which is not on PATH") as error:
        access({"exec": {"command": "gke-auth-nowhere", "installHint": "Get it from the cloud"}})
    assert error.value.remedy == "Get it from the cloud"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid YAML"),
        ("[1]\n", "not a YAML mapping"),
        ("{}", "no current context"),
        (json.dumps({**content(), "clusters": []}), 'no cluster "a"'),
        (json.dumps(content(server="")), "no server"),
        (json.dumps(content(None, **{"certificate-authority-data": "bm90IGEgY2VydA=="})), "certificates"),
    ],
)
def test_a_wrong_kubeconfig_is_a_one_line_error(text: str, words: str) -> None:
    with pytest.raises(SymphonyError, match=words) as error:
        kubeconfig.access(text)
    assert "\n" not in str(error.value)


def test_impersonation_becomes_request_headers() -> None:
    result = access({"token": "t", "as": "boss", "as-groups": ["ml", "ops"], "as-user-extra": {"why": ["x"]}})
    assert [*result.headers.iteritems()] == [
        ("Authorization", "Bearer t"),
        ("Impersonate-User", "boss"),
        ("Impersonate-Group", "ml"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-why", "x"),
    ]


def test_the_exec_plugin_gets_the_cluster_and_may_return_a_client_certificate(
    tmp_path: Path, certificate: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate and its key are on disk only while they are read."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made, key = certificate
    status = {"clientCertificateData": made, "clientKeyData": key}
    (tmp_path / "answer").write_text(json.dumps({"status": status}))
    user = plugin(tmp_path, f'echo "$KUBERNETES_EXEC_INFO" >> {tmp_path}/info; cat {tmp_path}/answer')
    user["exec"]["provideClusterInfo"] = True
    trust = access(user).trust
    assert trust is not None
    # Loading fails if the plugin ran twice.
    info = json.loads((tmp_path / "info").read_text())
    assert info["spec"]["cluster"]["server"] == "https://10.0.0.1:6443/"
    assert {file.name for file in tmp_path.iterdir()} == {"answer", "info", "plugin"}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("certificate")
    words = "req -x509 -newkey rsa:2048 -nodes -subj /CN=me -days 1 -keyout key -out cert"
    subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True, timeout=60)
    return (folder / "cert").read_text(), (folder / "key").read_text()


def test_in_a_pod_the_service_account_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificate: Any
) -> None:
    from kubernetes.config import incluster_config

    (tmp_path / "token").write_text("of-the-account\n")
    (tmp_path / "ca.crt").write_text(certificate[0])
    monkeypatch.setattr(kubeconfig, "_ACCOUNT", tmp_path)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    result = kubeconfig.access()
    assert result.server == "https://10.0.0.1:443"
    assert result.headers.get("Authorization", "").endswith("of-the-account")


@pytest.mark.parametrize("token", ["very\nsecret", "sécret"])
def test_the_error_for_an_invalid_token_hides_the_token(token: str) -> None:
    with pytest.raises(SymphonyError, match="invalid characters") as error:
        access({"token": token})
    assert "cret" not in str(error.value)


def test_null_lists_in_a_kubeconfig_count_as_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("users: null\nclusters:\n")
    (tmp_path / "b").write_text(json.dumps(content({"token": "b"})))
    (tmp_path / "c").write_text("users: null\ncontexts: []\n")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'a'}:{tmp_path / 'b'}:{tmp_path / 'c'}")
    assert kubeconfig.access().headers == {"Authorization": "Bearer b"}


class TestProxy:
    @pytest.fixture(autouse=True)
    def clean(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("https_proxy", "http_proxy", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.upper(), raising=False)

    def test_the_proxy_comes_from_the_environment_as_for_kubectl(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert access().pool.proxy is None
        monkeypatch.setenv("HTTPS_PROXY", "proxy.test:3128")
        assert str(access().pool.proxy) == "http://proxy.test:3128"
        assert str(access(None, **{"proxy-url": "http://own:1"}).pool.proxy) == "http://own:1"
        for local in ("https://127.0.0.1:6443", "https://localhost", "https://[::1]:6443"):
            assert access(server=local).pool.proxy is None

    @pytest.mark.parametrize(
        ("server", "no_proxy", "straight"),
        [
            ("https://10.1.2.3:6443", "x, 10.0.0.0/8", True),
            ("https://11.1.2.3:6443", "10.0.0.0/8", False),
            ("https://k.corp.test", ".corp.test", True),
            ("https://kcorp.test", "corp.test", False),
        ],
    )
    def test_no_proxy_bypasses_the_proxy(
        self, monkeypatch: pytest.MonkeyPatch, server: str, no_proxy: str, straight: bool
    ) -> None:
        monkeypatch.setenv("https_proxy", "http://p:1")
        monkeypatch.setenv("NO_PROXY", no_proxy)
        assert (access(server=server).pool.proxy is None) is straight
        if straight:
            monkeypatch.setenv("https_proxy", "socks5://p:1")
            assert access(server=server).pool.proxy is None, "NO_PROXY decides before the scheme"
        assert str(access(None, server=server, **{"proxy-url": "http://own:1"}).pool.proxy) == "http://own:1"

    def test_a_proxy_that_does_not_answer_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(client_module, "PATIENCE", 0)
        behind = access(None, **{"proxy-url": "http://127.0.0.1:1"})
        with pytest.raises(Unreachable, match=r"the proxy 127\.0\.0\.1:1 of the API server"):
            client_module.Client(behind).get("/version")
        monkeypatch.setattr(client_module, "CONNECT_DEADLINE", 0.1)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            behind = access(None, **{"proxy-url": f"http://127.0.0.1:{port}"})
            with pytest.raises(Unreachable, match=rf"through the proxy 127\.0\.0\.1:{port}"):
                client_module.Client(behind).get("/version")

    def test_the_proxy_password_is_sent_but_not_shown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(client_module, "PATIENCE", 0)
        with serving(lambda _: (403, {})) as api:
            port = api.url.rpartition(":")[2]
            result = access(None, **{"proxy-url": f"http://u:very%40secret@127.0.0.1:{port}"})
            assert "secret" not in repr(result)
            with pytest.raises(Unreachable, match="403"):
                Client(result).get("/x")
            with pytest.raises(Unreachable):
                Channels(Client(result), "/exec", [], ["v5.channel.k8s.io"])
            for request in api.asked:
                assert request.verb == "CONNECT"
                headers = {name.lower(): word for name, word in request.headers.items()}
                assert headers["proxy-authorization"] == "Basic dTp2ZXJ5QHNlY3JldA=="
            assert len(api.asked) == 2

    def test_an_unsupported_proxy_scheme_is_an_error(self) -> None:
        with pytest.raises(UserError, match="behind a socks5 proxy") as error:
            access(None, **{"proxy-url": "socks5://u:secret@p:1"})
        assert "secret" not in str(error.value)
