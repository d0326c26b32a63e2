"""The local cluster in place of every GKE cluster of the fake gcp plugin: kubeconfig, client, tokens."""

import base64
import contextlib
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from kubernetes import config, utils
from kubernetes.client import ApiClient, CoreV1Api

from toolchain.kubernetes.layout import Layout

_ACCOUNT = "symphony-gke-stand-in"
_NAMESPACE = "kube-system"
_RBAC = "rbac.authorization.k8s.io"
_HOUR = 3600


def kubeconfig() -> str:
    """Return the path of the administrator's kubeconfig, or '' if there is no cluster."""
    named = os.environ.get("SYMPHONY_TEST_KUBECONFIG")
    place = Path(named) if named else Layout.default().kubeconfig
    return str(place) if place.exists() else ""


def client() -> ApiClient | None:
    """Return a client with administrator rights, or None if there is no cluster."""
    place = kubeconfig()
    return config.new_client_from_config(place) if place else None


def core_api(client: ApiClient) -> Any:
    """Return the CoreV1Api, untyped: fields of its models may be None, and requests have dicts as bodies."""
    return CoreV1Api(client)


def endpoint() -> tuple[str, str]:
    """Return the address without https://, and the CA certificate in base64."""
    place = kubeconfig()
    if not place:
        return "192.0.2.1", base64.b64encode(b"no cluster is up").decode()
    content = yaml.safe_load(Path(place).read_text())
    cluster: dict[str, Any] = content["clusters"][0]["cluster"]
    authority = cluster.get("certificate-authority-data")
    if not authority:
        authority = base64.b64encode(Path(cluster["certificate-authority"]).read_bytes()).decode()
    return urlsplit(cluster["server"]).netloc, authority


def token(client: ApiClient) -> str:
    """Return a token of a service account with all rights, which is created if missing."""
    metadata = {"name": _ACCOUNT, "namespace": _NAMESPACE}
    subject = {"kind": "ServiceAccount", **metadata}
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    for manifest in (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": _ACCOUNT},
            "roleRef": role,
            "subjects": [subject],
        },
    ):
        with contextlib.suppress(utils.FailToCreateError):  # It exists.
            utils.create_from_dict(client, manifest)
    request = {"spec": {"audiences": [], "expirationSeconds": _HOUR}}
    answer = core_api(client).create_namespaced_service_account_token(_ACCOUNT, _NAMESPACE, request)
    return answer.status.token
