"""The Debian packages the cluster needs, installed by `up` when they are missing and it runs as root."""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from toolchain.kubernetes.calls import ToolchainError, run

# package -> a program or file that shows that it is installed, in any way
PACKAGES = {
    "busybox-static": "busybox",
    "conntrack": "conntrack",
    "containernetworking-plugins": "/usr/lib/cni/host-local",
    "docker-registry": "docker-registry",
    "docker.io": "dockerd",
    "ethtool": "ethtool",
    "iproute2": "ip",
    "iptables": "iptables",
    "openssl": "openssl",
    "socat": "socat",
}


def missing() -> list[str]:
    """Return the packages that are not installed."""
    return [name for name, proof in PACKAGES.items() if not _present(proof)]


def ensure(say: Callable[[str], None]) -> None:
    """Install what is missing; raise ToolchainError with the command if this user cannot."""
    wanted = missing()
    if not wanted:
        return
    install(wanted, say)
    still = missing()
    if still:
        raise ToolchainError(f"installed, but not found afterwards: {' '.join(still)}")


def install(wanted: Sequence[str], say: Callable[[str], None]) -> None:
    """Install Debian packages as root. Raises ToolchainError with the command for another user."""
    command = "apt-get install -y --no-install-recommends " + " ".join(wanted)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise ToolchainError(f"missing programs; on Debian: {command}")
    say(f"installing {len(wanted)} Debian packages: {' '.join(wanted)}")
    run(["apt-get", "update"], timeout=180)
    run(["env", "DEBIAN_FRONTEND=noninteractive", *command.split()], timeout=600)


def _present(proof: str) -> bool:
    return (
        Path(proof).exists() if proof.startswith("/") else shutil.which(proof, path=search_path()) is not None
    )


def search_path() -> str:
    """PATH with the administrator's folders, which a user's own PATH often lacks."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])
