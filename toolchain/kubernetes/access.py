"""The users of the cluster: certificates, kubeconfigs, and the roles of CoreDNS and of the ordinary user."""

import base64
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from symphony.backends import kubernetes
from toolchain.kubernetes import api
from toolchain.kubernetes.calls import run
from toolchain.kubernetes.layout import (
    API_SERVER,
    CLUSTER_DOMAIN,
    KUBERNETES_SERVICE_IP,
    NODE_ADDRESS,
    NODE_NAME,
    Layout,
)

_DAYS = "365"
_SERVICE = ("", ".default", ".default.svc", f".default.svc.{CLUSTER_DOMAIN}")


@dataclass(frozen=True)
class _Certificate:
    """A certificate to issue; Kubernetes reads the user in `common_name`, the groups in `organization`."""

    name: str
    common_name: str
    organization: str = ""
    hosts: tuple[str, ...] = ()


_CERTIFICATES = (
    _Certificate("etcd", "etcd", hosts=("IP:127.0.0.1",)),
    _Certificate(
        "kube-apiserver",
        "kube-apiserver",
        hosts=(
            f"IP:{NODE_ADDRESS}",
            f"IP:{KUBERNETES_SERVICE_IP}",
            "IP:127.0.0.1",
            "DNS:localhost",
            *(f"DNS:kubernetes{suffix}" for suffix in _SERVICE),
        ),
    ),
    _Certificate("kubelet-client", "kube-apiserver-kubelet-client", "system:masters"),
    _Certificate(
        "kubelet",
        f"system:node:{NODE_NAME}",
        "system:nodes",
        hosts=(f"IP:{NODE_ADDRESS}", f"DNS:{NODE_NAME}"),
    ),
    _Certificate("kube-controller-manager", "system:kube-controller-manager"),
    _Certificate("kube-scheduler", "system:kube-scheduler"),
    _Certificate("kube-proxy", "system:kube-proxy"),
    _Certificate("coredns", "system:coredns"),
    _Certificate("kwok", "kwok", "system:masters"),
    _Certificate("admin", "admin", "system:masters"),
    # A user who has only the Role of `symphony rbac`.
    _Certificate("ordinary", "ordinary"),
)


def make_certificates(layout: Layout) -> None:
    """Write the authority, all certificates and the key that signs service-account tokens."""
    layout.path("certificates").mkdir(mode=0o700)
    _openssl(layout, "ca", "/CN=symphony-cluster", "-addext", "basicConstraints=critical,CA:TRUE")
    curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    private, public = layout.key("service-accounts"), layout.path("certificates", "service-accounts.pub")
    run(["openssl", "genpkey", *curve, "-out", private])
    run(["openssl", "pkey", "-in", private, "-pubout", "-out", public])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda wanted: _issue(layout, wanted), _CERTIFICATES))


def _issue(layout: Layout, wanted: _Certificate) -> None:
    """Write a certificate signed by the authority of this cluster."""
    subject = (f"/O={wanted.organization}" if wanted.organization else "") + f"/CN={wanted.common_name}"
    names = ("-addext", f"subjectAltName={','.join(wanted.hosts)}") if wanted.hosts else ()
    authority = ("-CA", str(layout.certificate("ca")), "-CAkey", str(layout.key("ca")))
    usage = ("-addext", "extendedKeyUsage=serverAuth,clientAuth", "-addext", "basicConstraints=CA:FALSE")
    _openssl(layout, wanted.name, subject, *authority, *usage, *names)


def _openssl(layout: Layout, name: str, subject: str, *options: str) -> None:
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", _DAYS)
    files = ("-keyout", layout.key(name), "-out", layout.certificate(name))
    run(["openssl", "req", "-x509", *kind, "-subj", subject, *files, *options])


_PROGRAMS = ("kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy", "coredns", "kwok")


def write_kubeconfigs(layout: Layout) -> None:
    """Write the kubeconfigs of the programs, the administrator and the ordinary user."""
    layout.path("kubeconfigs").mkdir(mode=0o700)
    for user in (*_PROGRAMS, "admin"):
        _write_kubeconfig(layout, user, "default", layout.path("kubeconfigs", f"{user}.yaml"))
    _write_kubeconfig(layout, "ordinary", "ordinary", layout.user_kubeconfig)


def _write_kubeconfig(layout: Layout, user: str, namespace: str, file: Path) -> None:
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


ORDINARY = "ordinary"
ROLE = Path(kubernetes.__file__).with_name("role.yaml")
_RBAC = "rbac.authorization.k8s.io"


def make_roles(layout: Layout) -> None:
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
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "system:coredns"},
        "rules": [
            {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": read},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": read},
        ],
    }


def _binding(kind: str, name: str, role_kind: str, role: str, user: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": role_kind, "name": role},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": user}],
    }
