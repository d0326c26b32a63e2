"""A Docker daemon of the cluster for `docker build` and `push`, if the machine runs none."""

import os
from pathlib import Path

from toolchain.kubernetes.calls import succeeds
from toolchain.kubernetes.layout import Layout, cache_folder
from toolchain.kubernetes.machine import kernel


def machine_has_docker() -> bool:
    """Return whether a plain `docker` already reaches a daemon."""
    return succeeds(["docker", "version", "--format", "{{.Server.Version}}"], timeout=10)


def socket(layout: Layout) -> Path:
    return layout.path("docker.sock")


def dockerd(layout: Layout, containerd_socket: Path) -> tuple[str, ...]:
    """Start dockerd on the node's containerd, in a separate containerd namespace."""
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


def path_with_buildkit() -> str:
    """Return a PATH whose docker command builds with BuildKit.

    A command of version 23 or newer needs its buildx plugin for that; Debian's version 20 does not.
    """
    path, debian = os.environ.get("PATH", os.defpath), Path("/usr/bin/docker")
    if succeeds(["docker", "buildx", "version"], timeout=10) or not debian.is_file():
        return path
    link = cache_folder() / "docker-with-buildkit" / "docker"
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(debian)
    return f"{link.parent}{os.pathsep}{path}"
