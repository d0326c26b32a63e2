"""The old home of KubeCluster: programs for the original Symphony import it from here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from symphony.classic.cluster import KubeCluster as KubeCluster

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name != "GKEDispatcher":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from symphony import classic

        return getattr(classic, name)
