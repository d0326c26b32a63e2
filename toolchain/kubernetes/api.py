"""The few API requests that `up` needs, made with the cluster's own kubectl."""

import json
from typing import Any

from toolchain.kubernetes import build
from toolchain.kubernetes.calls import ToolchainError, run
from toolchain.kubernetes.layout import Layout

TIMEOUT = 10


def is_ready(layout: Layout) -> bool:
    """Return whether the API server reports ready."""
    try:
        return _kubectl(layout, "get", "--raw", "/readyz") == "ok"
    except ToolchainError:
        return False


def get(layout: Layout, kind: str, name: str, namespace: str = "default") -> dict[str, Any]:
    """Return an object, {} if it does not exist or the server does not answer."""
    try:
        return json.loads(_kubectl(layout, "-n", namespace, "get", kind, name, "-o", "json"))
    except ToolchainError:
        return {}


def apply(layout: Layout, *manifests: dict[str, Any], words: tuple[str, ...] = ()) -> None:
    """Create or update the objects by server-side apply."""
    content = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    _kubectl(layout, "apply", "--server-side", "--force-conflicts", *words, "-f", "-", stdin=content)


def _kubectl(layout: Layout, *words: str, stdin: str | None = None) -> str:
    timeout = f"--request-timeout={TIMEOUT}s"
    return run([build.kubectl(), f"--kubeconfig={layout.kubeconfig}", timeout, *words], stdin=stdin)
