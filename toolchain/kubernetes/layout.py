"""The files and addresses of the cluster."""

import os
from dataclasses import dataclass
from pathlib import Path

NODE_NAME = "symphony-node"
NODE_BRIDGE = "symph-node"
POD_BRIDGE = "symph-pods"
NODE_ADDRESS = "10.213.0.1"
POD_RANGE = "10.213.64.0/20"
SERVICE_RANGE = "10.213.128.0/20"
SIMULATED_POD_RANGE = "10.213.192.0/20"  # pods on the nodes that kwok simulates
KUBERNETES_SERVICE_IP = "10.213.128.1"
CLUSTER_DOMAIN = "cluster.local"

API_SERVER = f"https://{NODE_ADDRESS}:6443"
ETCD = "https://127.0.0.1:22379"
ETCD_PEER = "https://127.0.0.1:22380"
REGISTRY = "localhost:5000"
PAUSE_IMAGE = f"{REGISTRY}/symphony/pause:1"

# Every program of the cluster has this variable, so that `down` finds it and its children.
MARKER = "SYMPHONY_CLUSTER"


def cache_folder() -> Path:
    """Return this user's folder for everything built or running."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "symphony"


@dataclass(frozen=True)
class Layout:
    """The folder of one cluster; `down` keeps pushed and built images in it."""

    folder: Path

    @classmethod
    def default(cls) -> "Layout":
        return cls(cache_folder() / "cluster")

    def path(self, *parts: str) -> Path:
        return self.folder.joinpath(*parts)

    @property
    def kubeconfig(self) -> Path:
        """Return the kubeconfig of the administrator."""
        return self.path("kubeconfigs", "admin.yaml")

    @property
    def user_kubeconfig(self) -> Path:
        """Return the kubeconfig of a user with the grants of `symphony rbac` in the namespace `ordinary`."""
        return self.path("kubeconfigs", "ordinary.yaml")

    def certificate(self, name: str) -> Path:
        return self.path("certificates", f"{name}.crt")

    def key(self, name: str) -> Path:
        return self.path("certificates", f"{name}.key")

    @property
    def for_tests(self) -> Path:
        """Return the file that marks a cluster started by tests: the last session takes it down."""
        return self.path("for-tests")

    def log(self, daemon: str) -> Path:
        return self.path("logs", f"{daemon}.log")
