"""Tells the API server who may do what: CoreDNS reads names, the ordinary user has role.yaml in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from toolchain.kubernetes.api import Api

ORDINARY = "ordinary"
ROLE = Path(__file__).parents[1] / "role.yaml"
_GROUP = "rbac.authorization.k8s.io"
_RBAC = f"/apis/{_GROUP}/v1"


def make(api: Api) -> None:
    """Safe to repeat."""
    api.apply(f"{_RBAC}/clusterroles/system:coredns", _dns_role())
    api.apply(
        f"{_RBAC}/clusterrolebindings/system:coredns",
        _binding("ClusterRoleBinding", "system:coredns", "ClusterRole", "system:coredns", "system:coredns"),
    )
    api.apply(
        f"/api/v1/namespaces/{ORDINARY}",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ORDINARY}},
    )
    grant(api, ORDINARY, ORDINARY)


def grant(api: Api, user: str, namespace: str) -> None:
    """Give a user the published Role in a namespace that exists."""
    role = yaml.safe_load(ROLE.read_text())
    name = role["metadata"]["name"]
    place = f"{_RBAC}/namespaces/{namespace}"
    api.apply(f"{place}/roles/{name}", role)
    api.apply(
        f"{place}/rolebindings/{name}-{user}", _binding("RoleBinding", f"{name}-{user}", "Role", name, user)
    )


def _dns_role() -> dict[str, Any]:
    read = ["list", "watch"]
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "system:coredns"},
        "rules": [
            {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": read},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": read},
        ],
    }


def _binding(kind: str, name: str, role_kind: str, role: str, user: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _GROUP, "kind": role_kind, "name": role},
        "subjects": [{"apiGroup": _GROUP, "kind": "User", "name": user}],
    }
