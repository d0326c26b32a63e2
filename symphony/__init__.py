"""symphony: one Pulumi program runs a distributed experiment in tmux and on Kubernetes.

Everything public is found here and loaded when it is first used: `import symphony` loads nothing heavy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symphony.classic import AddressBook as AddressBook
    from symphony.classic import Cluster as Cluster
    from symphony.classic import DockerBuilder as DockerBuilder
    from symphony.classic import GKEDispatcher as GKEDispatcher
    from symphony.classic import KubeCluster as KubeCluster
    from symphony.classic import SymphonyConfig as SymphonyConfig
    from symphony.classic import SymphonyParser as SymphonyParser
    from symphony.classic import TmuxCluster as TmuxCluster
    from symphony.classic import clean_images as clean_images
    from symphony.components.dispatch import run_program as run_program
    from symphony.components.experiment import Experiment as Experiment
    from symphony.components.gke.cluster import GkeCluster as GkeCluster
    from symphony.components.gke.node_pool import NodePool as NodePool
    from symphony.components.image import Image as Image
    from symphony.components.process import Process as Process
    from symphony.components.process_group import ProcessGroup as ProcessGroup
    from symphony.errors import SymphonyError as SymphonyError
    from symphony.errors import UserError as UserError

__version__ = "0.1.0"

_HOMES = {
    "Experiment": "symphony.components.experiment",
    "GkeCluster": "symphony.components.gke.cluster",
    "NodePool": "symphony.components.gke.node_pool",
    "Image": "symphony.components.image",
    "Process": "symphony.components.process",
    "ProcessGroup": "symphony.components.process_group",
    "run_program": "symphony.components.dispatch",
    "SymphonyError": "symphony.errors",
    "UserError": "symphony.errors",
    **dict.fromkeys(
        (
            "AddressBook",
            "Cluster",
            "DockerBuilder",
            "GKEDispatcher",
            "KubeCluster",
            "SymphonyConfig",
            "SymphonyParser",
            "TmuxCluster",
            "clean_images",
        ),
        "symphony.classic",
    ),
}
__all__ = [
    "AddressBook",
    "Cluster",
    "DockerBuilder",
    "Experiment",
    "GKEDispatcher",
    "GkeCluster",
    "Image",
    "KubeCluster",
    "NodePool",
    "Process",
    "ProcessGroup",
    "SymphonyConfig",
    "SymphonyError",
    "SymphonyParser",
    "TmuxCluster",
    "UserError",
    "clean_images",
    "run_program",
]

# A type checker would take any misspelt name for one that this finds.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(home), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOMES})
