"""A Docker daemon of the cluster's own, for `docker build` and `push`, when the machine runs none."""

from __future__ import annotations

from pathlib import Path

from toolchain.kubernetes.calls import succeeds
from toolchain.kubernetes.layout import Layout
from toolchain.kubernetes.machine import kernel


def machine_has_one() -> bool:
    """Whether a plain `docker` reaches a daemon already."""
    return succeeds(["docker", "version", "--format", "{{.Server.Version}}"], timeout=10)


def socket(layout: Layout) -> Path:
    return layout.path("docker.sock")


def dockerd(layout: Layout, containerd_socket: Path) -> tuple[str, ...]:
    """It shares the node's containerd, in a containerd namespace of its own."""
    return (
        "dockerd",
        f"--host=unix://{socket(layout)}",
        f"--containerd={containerd_socket}",
        f"--data-root={layout.path('docker')}",
        f"--exec-root={layout.path('docker-exec')}",
        f"--pidfile={layout.path('run', 'dockerd.pid')}",
        f"--cgroup-parent={kernel.cgroup(layout)}/docker",
        "--log-level=warn",
    )


def ready(layout: Layout) -> bool:
    return succeeds(["docker", "--host", f"unix://{socket(layout)}", "version"], timeout=5)
