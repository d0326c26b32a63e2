"""The old home of KubeCluster: programs for the original Symphony import it from here."""

from __future__ import annotations

from typing import Any

from symphony.classic.cluster import KubeCluster as KubeCluster


def __getattr__(name: str) -> Any:
    if name != "GKEDispatcher":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from symphony import classic

    return getattr(classic, name)
