"""The names of the original Symphony, one thin face over our own objects; plain scripts import them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symphony.classic.cluster import Cluster as Cluster
    from symphony.classic.cluster import TmuxCluster as TmuxCluster
    from symphony.classic.config import SymphonyConfig as SymphonyConfig

_HOMES = {
    "Cluster": "symphony.classic.cluster",
    "TmuxCluster": "symphony.classic.cluster",
    "SymphonyConfig": "symphony.classic.config",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
