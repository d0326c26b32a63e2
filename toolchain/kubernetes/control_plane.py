"""The command lines of etcd, API server, controller manager and scheduler, as pure functions."""

from pathlib import Path

from toolchain.kubernetes.layout import ETCD, ETCD_PEER, NODE_ADDRESS, SERVICE_RANGE, Layout

# Endpoints that only the cluster's own programs need listen on loopback.
LOOPBACK = "--bind-address=127.0.0.1"


def etcd(program: Path, layout: Layout) -> tuple[str, ...]:
    certificate, key, authority = layout.certificate("etcd"), layout.key("etcd"), layout.certificate("ca")
    return (
        str(program),
        "--name=symphony",
        f"--data-dir={layout.path('etcd')}",
        f"--listen-client-urls={ETCD}",
        f"--advertise-client-urls={ETCD}",
        f"--listen-peer-urls={ETCD_PEER}",
        f"--initial-advertise-peer-urls={ETCD_PEER}",
        f"--initial-cluster=symphony={ETCD_PEER}",
        "--client-cert-auth",
        f"--trusted-ca-file={authority}",
        f"--cert-file={certificate}",
        f"--key-file={key}",
        "--peer-client-cert-auth",
        f"--peer-trusted-ca-file={authority}",
        f"--peer-cert-file={certificate}",
        f"--peer-key-file={key}",
        "--unsafe-no-fsync",  # the data dies with the cluster anyway
        "--log-level=warn",
    )


def api_server(program: Path, layout: Layout) -> tuple[str, ...]:
    return (
        str(program),
        f"--bind-address={NODE_ADDRESS}",
        f"--advertise-address={NODE_ADDRESS}",
        "--secure-port=6443",
        f"--tls-cert-file={layout.certificate('kube-apiserver')}",
        f"--tls-private-key-file={layout.key('kube-apiserver')}",
        f"--client-ca-file={layout.certificate('ca')}",
        f"--etcd-servers={ETCD}",
        f"--etcd-cafile={layout.certificate('ca')}",
        f"--etcd-certfile={layout.certificate('etcd')}",
        f"--etcd-keyfile={layout.key('etcd')}",
        f"--kubelet-certificate-authority={layout.certificate('ca')}",
        f"--kubelet-client-certificate={layout.certificate('kubelet-client')}",
        f"--kubelet-client-key={layout.key('kubelet-client')}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-key-file={layout.path('certificates', 'service-accounts.pub')}",
        f"--service-account-signing-key-file={layout.key('service-accounts')}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",  # besides the default ones, such as PodSecurity
        "--allow-privileged=true",
        "--anonymous-auth=false",
        "--profiling=false",
    )


def controller_manager(program: Path, layout: Layout) -> tuple[str, ...]:
    return (
        str(program),
        f"--kubeconfig={layout.path('kubeconfigs', 'kube-controller-manager.yaml')}",
        LOOPBACK,
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.key('service-accounts')}",
        f"--root-ca-file={layout.certificate('ca')}",
        f"--cluster-signing-cert-file={layout.certificate('ca')}",
        f"--cluster-signing-key-file={layout.key('ca')}",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    )


def scheduler(program: Path, layout: Layout) -> tuple[str, ...]:
    return (
        str(program),
        f"--kubeconfig={layout.path('kubeconfigs', 'kube-scheduler.yaml')}",
        LOOPBACK,
        "--leader-elect=false",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    )
