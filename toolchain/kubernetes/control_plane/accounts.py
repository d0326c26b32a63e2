"""Creates the roles of CoreDNS and of the ordinary user, who has the Role of `symphony rbac`."""

from pathlib import Path
from typing import Any

import yaml

from symphony.backends import kubernetes
from toolchain.kubernetes import api
from toolchain.kubernetes.layout import Layout

ORDINARY = "ordinary"
ROLE = Path(kubernetes.__file__).with_name("role.yaml")
_GROUP = "rbac.authorization.k8s.io"


def make(layout: Layout) -> None:
    """Create the role of CoreDNS, and the namespace and role of the ordinary user; idempotent."""
    dns = "system:coredns"
    api.apply(
        layout,
        _dns_role(),
        _binding("ClusterRoleBinding", dns, "ClusterRole", dns, dns),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ORDINARY}},
    )
    grant(layout, ORDINARY, ORDINARY)


def grant(layout: Layout, user: str, namespace: str) -> None:
    """Grant a user the Role of `symphony rbac` in an existing namespace."""
    role = yaml.safe_load(ROLE.read_text())
    name = role["metadata"]["name"]
    binding = _binding("RoleBinding", f"{name}-{user}", "Role", name, user)
    api.apply(layout, role, binding, words=("-n", namespace))


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
