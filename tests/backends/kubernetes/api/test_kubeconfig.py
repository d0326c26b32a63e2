"""A kubeconfig is read as kubectl reads it, and what is wrong with one is said in one line."""

from __future__ import annotations

import json
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest

from symphony.backends.kubernetes.api import kubeconfig
from symphony.errors import SymphonyError, UserError


def content(user: dict[str, Any] | None = None, name: str = "a", **cluster: Any) -> dict[str, Any]:
    return {
        "clusters": [{"name": name, "cluster": {"server": "https://10.0.0.1:6443/", **cluster}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "users": [{"name": name, "user": user or {}}],
        "current-context": name,
    }


def access(user: dict[str, Any] | None = None, **cluster: Any) -> kubeconfig.Access:
    return kubeconfig.access(json.dumps(content(user, **cluster)))


def test_the_server_and_the_context_are_told() -> None:
    result = access({"token": "t"}, **{"tls-server-name": "kube", "proxy-url": "http://p:1"})
    assert (result.server, result.context, result.server_name) == ("https://10.0.0.1:6443", "a", "kube")
    assert result.headers == {"Authorization": "Bearer t"}


def test_authorities_are_judged_as_by_kubectl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python from 3.13 on is stricter unless it is told."""

    def strict(**authority: Any) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    trust = access().trust
    assert trust is not None
    assert not trust.verify_flags & ssl.VERIFY_X509_STRICT


def test_credentials_are_not_shown() -> None:
    assert "very-secret" not in repr(access({"token": "very-secret"}))


def test_a_password_and_a_token_file_serve_too(tmp_path: Path) -> None:
    assert access({"username": "u", "password": "p"}).headers == {"Authorization": "Basic dTpw"}
    (tmp_path / "token").write_text("from-file\n")
    (tmp_path / "config").write_text(json.dumps(content({"tokenFile": "token"})))
    assert kubeconfig.access(str(tmp_path / "config")).headers == {"Authorization": "Bearer from-file"}


def test_of_several_files_the_first_that_says_something_wins(
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


def test_an_auth_plugin_is_asked(tmp_path: Path) -> None:
    result = plugin(tmp_path, """echo '{"status": {"token": "from-plugin"}}'""")
    assert access(result).headers == {"Authorization": "Bearer from-plugin"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo no session >&2; exit 1", "returned no token: no session"),
        # As gcloud says it, to whom nobody is logged in.
        (
            "printf 'failed (err: ERROR: (g) No account.\n\nto use.\n)' >&2; exit 1",
            r"no token: \(g\) No account\. Log in",
        ),
        ("echo nonsense", "returned no token"),
    ],
)
def test_an_auth_plugin_that_fails_is_quoted(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SymphonyError, match=words):
        access(plugin(tmp_path, text))


def test_an_auth_plugin_that_is_missing_is_named() -> None:
    with pytest.raises(SymphonyError, match="needs gke-auth-nowhere, which is not on PATH") as error:
        access({"exec": {"command": "gke-auth-nowhere", "installHint": "Get it from the cloud"}})
    assert error.value.remedy == "Get it from the cloud"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid YAML"),
        ("[1]\n", "not a mapping"),
        ("{}", "no current context"),
        (json.dumps({**content(), "clusters": []}), 'no cluster "a"'),
        (json.dumps(content(server="")), "no server"),
        (json.dumps(content(None, **{"certificate-authority-data": "bm90IGEgY2VydA=="})), "certificates"),
    ],
)
def test_what_is_wrong_is_one_line(text: str, words: str) -> None:
    with pytest.raises(SymphonyError, match=words) as error:
        kubeconfig.access(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"as": "boss", "token": "t"}, "acts as boss"),
        ({"auth-provider": {"name": "oidc"}}, "an auth-provider"),
    ],
)
def test_a_user_whom_only_kubectl_would_be_is_refused(user: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words) as error:
        access(user)
    assert error.value.remedy
