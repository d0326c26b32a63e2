"""The names of the original Symphony, one thin face over our own objects."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symphony.components.experiment import Experiment
    from symphony.components.process import Process
    from symphony.components.process_group import ProcessGroup

    ExperimentSpec = KubeExperimentSpec = TmuxExperimentSpec = Experiment
    ProcessSpec = KubeProcessSpec = TmuxProcessSpec = Process
    ProcessGroupSpec = KubeProcessGroupSpec = TmuxProcessGroupSpec = ProcessGroup
    from symphony.classic.addresses import AddressBook as AddressBook
    from symphony.classic.cluster import Cluster as Cluster
    from symphony.classic.cluster import KubeCluster as KubeCluster
    from symphony.classic.cluster import TmuxCluster as TmuxCluster
    from symphony.classic.config import SymphonyConfig as SymphonyConfig
    from symphony.classic.docker_builder import DockerBuilder as DockerBuilder
    from symphony.classic.docker_builder import clean_images as clean_images
    from symphony.classic.gke_dispatcher import GKEDispatcher as GKEDispatcher
    from symphony.classic.parser import SymphonyParser as SymphonyParser

_HOMES = {
    "AddressBook": "symphony.classic.addresses",
    "Cluster": "symphony.classic.cluster",
    "GKEDispatcher": "symphony.classic.gke_dispatcher",
    "DockerBuilder": "symphony.classic.docker_builder",
    "clean_images": "symphony.classic.docker_builder",
    "KubeCluster": "symphony.classic.cluster",
    "SymphonyConfig": "symphony.classic.config",
    "SymphonyParser": "symphony.classic.parser",
    "TmuxCluster": "symphony.classic.cluster",
    **{
        f"{backend}{name}Spec": f"symphony.components.{module}:{name}"
        for backend in ("", "Kube", "Tmux")
        for name, module in (
            ("Experiment", "experiment"),
            ("ProcessGroup", "process_group"),
            ("Process", "process"),
        )
    },
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, _, alias = _HOMES[name].partition(":")
        return getattr(importlib.import_module(module), alias or name)
