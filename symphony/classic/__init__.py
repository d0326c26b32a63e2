"""The names of the original Symphony, as thin wrappers that are loaded when they are first used."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symphony.classic.cluster import Cluster as Cluster
    from symphony.classic.cluster import KubeCluster as KubeCluster
    from symphony.classic.cluster import TmuxCluster as TmuxCluster
    from symphony.classic.config import AddressBook as AddressBook
    from symphony.classic.config import SymphonyConfig as SymphonyConfig
    from symphony.classic.docker_builder import DockerBuilder as DockerBuilder
    from symphony.classic.docker_builder import clean_images as clean_images
    from symphony.classic.gke_dispatcher import GKEDispatcher as GKEDispatcher
    from symphony.classic.parser import SymphonyParser as SymphonyParser
    from symphony.classic.spellings import Experiment as Experiment
    from symphony.classic.spellings import Process as Process
    from symphony.classic.spellings import ProcessGroup as ProcessGroup

    ExperimentSpec = KubeExperimentSpec = TmuxExperimentSpec = Experiment
    ProcessSpec = KubeProcessSpec = TmuxProcessSpec = Process
    ProcessGroupSpec = KubeProcessGroupSpec = TmuxProcessGroupSpec = ProcessGroup

# module -> the names in it. KubeProcessSpec and the like are other names of the classes in `spellings`.
_NAMES = {
    "cluster": ("Cluster", "KubeCluster", "TmuxCluster"),
    "config": ("AddressBook", "SymphonyConfig"),
    "spellings": ("Experiment", "Process", "ProcessGroup"),
    "docker_builder": ("DockerBuilder", "clean_images"),
    "gke_dispatcher": ("GKEDispatcher",),
    "parser": ("SymphonyParser",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
_SPECS = {f"{backend}{name}Spec": name for backend in ("", "Kube", "Tmux") for name in _NAMES["spellings"]}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        home = _SPECS.get(name, name)
        if home not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[home]}"), home)
