"""A temporary certificate authority, and a certificate for every program and user."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from toolchain.kubernetes.calls import run
from toolchain.kubernetes.layout import CLUSTER_DOMAIN, KUBERNETES_SERVICE_IP, NODE_ADDRESS, NODE_NAME, Layout

DAYS = "365"
_SERVICE = ("", ".default", ".default.svc", f".default.svc.{CLUSTER_DOMAIN}")


@dataclass(frozen=True)
class Certificate:
    """A certificate to issue; Kubernetes reads the user in `common_name`, the groups in `organization`."""

    name: str
    common_name: str
    organization: str = ""
    hosts: tuple[str, ...] = ()


WANTED = (
    Certificate("etcd", "etcd", hosts=("IP:127.0.0.1",)),
    Certificate(
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
    Certificate("kubelet-client", "kube-apiserver-kubelet-client", "system:masters"),
    Certificate(
        "kubelet",
        f"system:node:{NODE_NAME}",
        "system:nodes",
        hosts=(f"IP:{NODE_ADDRESS}", f"DNS:{NODE_NAME}"),
    ),
    Certificate("kube-controller-manager", "system:kube-controller-manager"),
    Certificate("kube-scheduler", "system:kube-scheduler"),
    Certificate("kube-proxy", "system:kube-proxy"),
    Certificate("coredns", "system:coredns"),
    Certificate("kwok", "kwok", "system:masters"),
    Certificate("admin", "admin", "system:masters"),
    # A user who has only the Role of `symphony rbac`.
    Certificate("ordinary", "ordinary"),
)


def make(layout: Layout) -> None:
    """Write the authority, all certificates and the key that signs service-account tokens."""
    layout.path("certificates").mkdir(mode=0o700)
    _openssl(layout, "ca", "/CN=symphony-cluster", "-addext", "basicConstraints=critical,CA:TRUE")
    curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    private, public = layout.key("service-accounts"), layout.path("certificates", "service-accounts.pub")
    run(["openssl", "genpkey", *curve, "-out", private])
    run(["openssl", "pkey", "-in", private, "-pubout", "-out", public])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda wanted: issue(layout, wanted), WANTED))


def issue(layout: Layout, wanted: Certificate) -> None:
    """Write a certificate signed by the authority of this cluster."""
    subject = (f"/O={wanted.organization}" if wanted.organization else "") + f"/CN={wanted.common_name}"
    names = ("-addext", f"subjectAltName={','.join(wanted.hosts)}") if wanted.hosts else ()
    authority = ("-CA", str(layout.certificate("ca")), "-CAkey", str(layout.key("ca")))
    usage = ("-addext", "extendedKeyUsage=serverAuth,clientAuth", "-addext", "basicConstraints=CA:FALSE")
    _openssl(layout, wanted.name, subject, *authority, *usage, *names)


def _openssl(layout: Layout, name: str, subject: str, *options: str) -> None:
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", DAYS)
    files = ("-keyout", layout.key(name), "-out", layout.certificate(name))
    run(["openssl", "req", "-x509", *kind, "-subj", subject, *files, *options])
