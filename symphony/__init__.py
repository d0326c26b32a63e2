"""symphony: one Pulumi program runs a distributed experiment in tmux, on Kubernetes or on Slurm.

Public names are loaded on first use, so `import symphony` is cheap.
"""

import importlib
import sys
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
    from symphony.components.dispatch import params as params
    from symphony.components.dispatch import run_program as run_program
    from symphony.components.experiment import Experiment as Experiment
    from symphony.components.gke import GkeCluster as GkeCluster
    from symphony.components.gke import NodePool as NodePool
    from symphony.components.image import Image as Image
    from symphony.components.process import Process as Process
    from symphony.components.process_group import ProcessGroup as ProcessGroup
    from symphony.errors import SymphonyError as SymphonyError
    from symphony.errors import UserError as UserError
    from symphony.reporting import report as report
    from symphony.spec.pod import Place as Place
    from symphony.spec.pod import Toleration as Toleration
    from symphony.spec.process import Probe as Probe
    from symphony.spec.process import Resources as Resources

__version__ = "0.1.0"

# The names at run time; type checkers read the imports above.
_NAMES = {
    "classic": (
        "AddressBook Cluster DockerBuilder GKEDispatcher KubeCluster SymphonyConfig SymphonyParser"
        " TmuxCluster clean_images"
    ),
    "components.dispatch": "params run_program",
    "components.experiment": "Experiment",
    "components.gke": "GkeCluster NodePool",
    "components.image": "Image",
    "components.process": "Process",
    "components.process_group": "ProcessGroup",
    "errors": "SymphonyError UserError",
    "reporting": "report",
    "spec.pod": "Place Toleration",
    "spec.process": "Probe Resources",
}
_MODULES = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names.split()}
globals()["__all__"] = sorted(_MODULES)

# With a visible __getattr__, a type checker would accept any misspelt name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            # With name and obj, Python adds "Did you mean".
            obj = sys.modules[__name__]
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=obj)
        return getattr(importlib.import_module(_MODULES[name]), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULES})
