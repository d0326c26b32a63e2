"""Reads a kubeconfig into what a connection needs: server, trust, credentials."""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from toolchain.plugins.failures import Failure


@dataclass(frozen=True)
class Access:
    """How to reach one cluster as one user."""

    server: str
    namespace: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    trust: ssl.SSLContext | None = None


def load(kubeconfig: str, context: str = "", cluster: str = "") -> Access:
    """From the text of a kubeconfig, a path to one, or (empty) from where kubectl would look."""
    content = _content(kubeconfig)
    chosen = context or content.get("current-context", "")
    named = _named(content, "contexts", chosen).get("context", {}) if chosen else {}
    described = _named(content, "clusters", cluster or named.get("cluster", "")).get("cluster", {})
    user = _named(content, "users", named["user"]).get("user", {}) if named.get("user") else {}
    if not described.get("server"):
        raise Failure(f"the kubeconfig names no server for context {chosen!r}")
    return Access(
        server=described["server"].rstrip("/"),
        namespace=named.get("namespace", ""),
        headers=_headers(user),
        trust=_trust(described, user) if described["server"].startswith("https") else None,
    )


def _content(kubeconfig: str) -> dict[str, Any]:
    text = kubeconfig
    if not text:
        places = [place for place in os.environ.get("KUBECONFIG", "").split(os.pathsep) if place]
        text = (places or [str(Path.home() / ".kube" / "config")])[0]
    if "\n" not in text and not text.lstrip().startswith("{"):
        try:
            text = Path(text).expanduser().read_text()
        except OSError as error:
            raise Failure(f"no kubeconfig: {error}") from error
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise Failure(f"the kubeconfig is not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise Failure("the kubeconfig is not a mapping")
    return content


def _named(content: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    for entry in content.get(kind) or []:
        if entry.get("name") == name:
            return entry
    raise Failure(f"the kubeconfig has no {name!r} among its {kind}")


def _headers(user: dict[str, Any]) -> dict[str, str]:
    token = user.get("token")
    if not token and user.get("tokenFile"):
        token = Path(user["tokenFile"]).read_text().strip()
    if not token and user.get("exec"):
        token = _token_of_program(user["exec"])
    if token:
        return {"Authorization": f"Bearer {token}"}
    if user.get("username"):
        pair = base64.b64encode(f"{user['username']}:{user.get('password', '')}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    return {}


def _token_of_program(wanted: dict[str, Any]) -> str:
    """An auth plugin (gke-gcloud-auth-plugin and its like) prints a credential."""
    environment = {**os.environ, **{each["name"]: each["value"] for each in wanted.get("env") or []}}
    request = {
        "apiVersion": wanted.get("apiVersion"),
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }
    environment["KUBERNETES_EXEC_INFO"] = json.dumps(request)
    argv = [wanted["command"], *(wanted.get("args") or [])]
    try:
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=True)
        return json.loads(done.stdout)["status"]["token"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        raise Failure(
            f"the kubeconfig's auth plugin {wanted['command']} returned no token: {error}"
        ) from error


def _trust(described: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    if described.get("insecure-skip-tls-verify"):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        authority = _bytes(described, "certificate-authority")
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    certificate, key = _bytes(user, "client-certificate"), _bytes(user, "client-key")
    if certificate and key:
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # ssl reads certificates from files only
            file.write(certificate + b"\n" + key)
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _bytes(entry: dict[str, Any], name: str) -> bytes:
    if entry.get(f"{name}-data"):
        return base64.b64decode(entry[f"{name}-data"])
    return Path(entry[name]).read_bytes() if entry.get(name) else b""
