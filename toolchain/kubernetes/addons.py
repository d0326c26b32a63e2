"""Add-ons of the cluster: its name server, and simulated nodes (kwok)."""

from pathlib import Path
from typing import Any

from toolchain.kubernetes import api, daemons
from toolchain.kubernetes.layout import CLUSTER_DOMAIN, NODE_ADDRESS, SIMULATED_POD_RANGE, Layout

_HEALTH = "127.0.0.1:8181"


def coredns(program: Path, layout: Layout) -> tuple[str, ...]:
    return (str(program), f"-conf={layout.path('Corefile')}")


def configure_dns(layout: Layout) -> None:
    """Configure CoreDNS without a cache: a name must resolve as soon as its Service exists."""
    layout.path("Corefile").write_text(
        f""".:53 {{
    bind {NODE_ADDRESS}
    errors
    ready {_HEALTH}
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa {{
        kubeconfig {layout.path("kubeconfigs", "coredns.yaml")} symphony
        fallthrough in-addr.arpa
    }}
    forward . /etc/resolv.conf
}}
"""
    )


def dns_ready() -> bool:
    return daemons.answers(_HEALTH, "/ready")


ANNOTATION = "kwok.x-k8s.io/node"
LABELS = {"type": "kwok"}
# Only pods that tolerate this taint are scheduled there, so real pods never land on a simulated node.
TAINT = {"key": ANNOTATION, "value": "fake", "effect": "NoSchedule"}


def kwok(program: Path, layout: Layout) -> tuple[str, ...]:
    return (
        str(program),
        f"--kubeconfig={layout.path('kubeconfigs', 'kwok.yaml')}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={ANNOTATION}=fake",
        "--node-lease-duration-seconds=40",
        f"--cidr={SIMULATED_POD_RANGE}",
        "--server-address=127.0.0.1:10247",
    )


def add_nodes(layout: Layout, count: int) -> None:
    """Register this many nodes of 32 cores, 256 GiB and 250 pods."""
    names = [f"kwok-{number}" for number in range(count)]
    api.apply(layout, *map(_node, names))
    api.apply(layout, *map(_status, names), words=("--subresource=status",))


def _node(name: str) -> dict[str, Any]:
    labels = {
        **LABELS,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {ANNOTATION: "fake"}},
        "spec": {"taints": [TAINT]},
    }


def _status(name: str) -> dict[str, Any]:
    resources = {"cpu": "32", "memory": "256Gi", "pods": "250", "ephemeral-storage": "1Ti"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": resources, "capacity": resources},
    }
