"""The image registry of the cluster on loopback, and a Docker daemon that builds and pushes images."""

import json
import os
from contextlib import suppress
from pathlib import Path

from toolchain.kubernetes import daemons, machine
from toolchain.kubernetes.calls import succeeds
from toolchain.kubernetes.layout import REGISTRY, Layout, cache_folder


def registry(layout: Layout) -> tuple[str, ...]:
    return ("docker-registry", "serve", str(layout.path("registry.json")))


def configure(layout: Layout) -> None:
    """Write the configuration of the registry as JSON, which is valid YAML."""
    content = {
        "version": "0.1",
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(layout.path("registry"))},
            "delete": {"enabled": True},
        },
        "http": {"addr": "127.0.0.1:5000"},
    }
    layout.path("registry.json").write_text(json.dumps(content))


def registry_ready() -> bool:
    return daemons.answers(REGISTRY, "/v2/")


def machine_has_docker() -> bool:
    """Return whether a plain `docker` already reaches a daemon."""
    return succeeds(["docker", "version", "--format", "{{.Server.Version}}"], timeout=10)


def docker_socket(layout: Layout) -> Path:
    return layout.path("docker.sock")


def dockerd(layout: Layout, containerd_socket: Path) -> tuple[str, ...]:
    """Return the command line of dockerd on the node's containerd, in a separate containerd namespace."""
    return (
        "dockerd",
        f"--host=unix://{docker_socket(layout)}",
        f"--containerd={containerd_socket}",
        f"--data-root={layout.path('docker')}",
        f"--exec-root={layout.path('docker-exec')}",
        f"--pidfile={layout.path('run', 'dockerd.pid')}",
        f"--cgroup-parent={machine.cgroup(layout)}/docker",
        "--log-level=warn",
    )


def docker_ready(layout: Layout) -> bool:
    return succeeds(["docker", "--host", f"unix://{docker_socket(layout)}", "version"], timeout=5)


def path_with_buildkit() -> str:
    """Return a PATH whose docker command builds with BuildKit.

    A command of version 23 or newer needs its buildx plugin for that; Debian's version 20 does not.
    """
    path, debian = os.environ.get("PATH", os.defpath), Path("/usr/bin/docker")
    if succeeds(["docker", "buildx", "version"], timeout=10) or not debian.is_file():
        return path
    link = cache_folder() / "docker-with-buildkit" / "docker"
    link.parent.mkdir(parents=True, exist_ok=True)
    # Several tests may do so at once.
    with suppress(FileExistsError):
        link.symlink_to(debian)
    return f"{link.parent}{os.pathsep}{path}"
