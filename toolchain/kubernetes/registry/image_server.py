"""The image registry on loopback, from which the node pulls images built on this machine."""

import json

from toolchain.kubernetes import daemons
from toolchain.kubernetes.layout import REGISTRY, Layout


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


def ready() -> bool:
    return daemons.answers(REGISTRY, "/v2/")
