"""KubeCluster and its specs, where programs for the original Symphony import them."""

from symphony.classic import KubeExperimentSpec as KubeExperimentSpec
from symphony.classic import KubeProcessGroupSpec as KubeProcessGroupSpec
from symphony.classic import KubeProcessSpec as KubeProcessSpec
from symphony.classic.cluster import KubeCluster as KubeCluster
from symphony.classic.gke_dispatcher import GKEDispatcher as GKEDispatcher

__all__ = ["GKEDispatcher", "KubeCluster", "KubeExperimentSpec", "KubeProcessGroupSpec", "KubeProcessSpec"]
