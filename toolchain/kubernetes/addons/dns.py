"""CoreDNS on the node's address: the name server that kubelet configures in every pod."""

from pathlib import Path

from toolchain.kubernetes import daemons
from toolchain.kubernetes.layout import CLUSTER_DOMAIN, NODE_ADDRESS, Layout

HEALTH = "127.0.0.1:8181"


def coredns(program: Path, layout: Layout) -> tuple[str, ...]:
    return (str(program), f"-conf={layout.path('Corefile')}")


def configure(layout: Layout) -> None:
    """Configure CoreDNS without a cache: a name must resolve as soon as its Service exists."""
    layout.path("Corefile").write_text(
        f""".:53 {{
    bind {NODE_ADDRESS}
    errors
    ready {HEALTH}
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa {{
        kubeconfig {layout.path("kubeconfigs", "coredns.yaml")} symphony
        fallthrough in-addr.arpa
    }}
    forward . /etc/resolv.conf
}}
"""
    )


def ready() -> bool:
    return daemons.answers(HEALTH, "/ready")
