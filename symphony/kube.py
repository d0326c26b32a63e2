"""The old home of KubeCluster and its like: programs for the original Symphony import them from here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from symphony.classic import KubeExperimentSpec as KubeExperimentSpec
from symphony.classic import KubeProcessGroupSpec as KubeProcessGroupSpec
from symphony.classic import KubeProcessSpec as KubeProcessSpec
from symphony.classic.cluster import KubeCluster as KubeCluster

__all__ = ["KubeCluster", "KubeExperimentSpec", "KubeProcessGroupSpec", "KubeProcessSpec"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name != "GKEDispatcher":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from symphony import classic

        return getattr(classic, name)
