"""The local cluster that stands for every cluster of GKE's: how it is reached, and who logs in there."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from toolchain.kubernetes.layout import Layout
from toolchain.plugin_kubernetes.api import access
from toolchain.plugin_kubernetes.api.connection import Connection
from toolchain.plugins.failures import Refused

_ACCOUNT = "symphony-gke-stand-in"
_NAMESPACE = "/api/v1/namespaces/kube-system/serviceaccounts"
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
_HOUR = 3600


def kubeconfig() -> str:
    """That of its administrator; empty where there is no cluster."""
    named = os.environ.get("SYMPHONY_TEST_KUBECONFIG")
    place = Path(named) if named else Layout.default().kubeconfig
    return str(place) if place.exists() else ""


def connection() -> Connection | None:
    """Requests to it as its administrator; None where there is no cluster."""
    place = kubeconfig()
    return Connection(access.load(place)) if place else None


def endpoint() -> tuple[str, str]:
    """Where it is, without https://, and the certificate of its authority in base 64."""
    place = kubeconfig()
    if not place:
        return "192.0.2.1", base64.b64encode(b"no cluster is up").decode()
    content = yaml.safe_load(Path(place).read_text())
    cluster: dict[str, Any] = content["clusters"][0]["cluster"]
    authority = cluster.get("certificate-authority-data")
    if not authority:
        authority = base64.b64encode(Path(cluster["certificate-authority"]).read_bytes()).decode()
    return urlsplit(cluster["server"]).netloc, authority


def token(requests: Connection) -> str:
    """One of a service account that may do everything, made when it is missing."""
    _ensure(requests, _NAMESPACE, {"apiVersion": "v1", "kind": "ServiceAccount"})
    subject = {"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": "kube-system"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
    _ensure(requests, _BINDINGS, {**binding, "roleRef": role, "subjects": [subject]})
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": _HOUR},
    }
    return requests.request("POST", f"{_NAMESPACE}/{_ACCOUNT}/token", body=body)["status"]["token"]


def _ensure(requests: Connection, path: str, thing: dict[str, Any]) -> None:
    try:
        requests.request("GET", f"{path}/{_ACCOUNT}")
    except Refused as refused:
        if refused.status != 404:
            raise
        requests.request("POST", path, body={**thing, "metadata": {"name": _ACCOUNT}})
