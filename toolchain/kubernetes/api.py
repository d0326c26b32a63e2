"""The few API requests that `up` needs, made with the cluster's own kubectl."""

import json
import ssl
import urllib.request
from typing import Any

from toolchain.kubernetes import build
from toolchain.kubernetes.calls import ToolchainError, run
from toolchain.kubernetes.layout import API_SERVER, Layout

TIMEOUT = 10


def is_ready(layout: Layout) -> bool:
    """Return whether the API server reports ready; the caller's HTTP proxy is bypassed."""
    trust = ssl.create_default_context(cafile=str(layout.certificate("ca")))
    # Anonymous requests are refused.
    trust.load_cert_chain(layout.certificate("admin"), layout.key("admin"))
    handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust))
    try:
        with urllib.request.build_opener(*handlers).open(f"{API_SERVER}/readyz", timeout=TIMEOUT) as answer:
            return answer.status == 200
    except OSError:
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
