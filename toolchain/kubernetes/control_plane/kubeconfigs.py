"""Writes a kubeconfig for each user of the cluster, with embedded certificates so that it can be copied."""

import base64
from pathlib import Path

import yaml

from toolchain.kubernetes.layout import API_SERVER, Layout

PROGRAMS = ("kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy", "coredns", "kwok")


def write(layout: Layout) -> None:
    """Write the kubeconfigs of the programs, the administrator and the ordinary user."""
    layout.path("kubeconfigs").mkdir(mode=0o700)
    for user in (*PROGRAMS, "admin"):
        _write(layout, user, "default", layout.path("kubeconfigs", f"{user}.yaml"))
    _write(layout, "ordinary", "ordinary", layout.user_kubeconfig)


def _write(layout: Layout, user: str, namespace: str, file: Path) -> None:
    identity = {
        "client-certificate-data": _embedded(layout.certificate(user)),
        "client-key-data": _embedded(layout.key(user)),
    }
    cluster = {"server": API_SERVER, "certificate-authority-data": _embedded(layout.certificate("ca"))}
    context = {"cluster": "symphony", "user": user, "namespace": namespace}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "symphony", "cluster": cluster}],
        "users": [{"name": user, "user": identity}],
        "contexts": [{"name": "symphony", "context": context}],
        "current-context": "symphony",
    }
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(content))


def _embedded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
