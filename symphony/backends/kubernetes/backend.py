"""The row of Kubernetes: an experiment is a namespace, a process a container, a service a Service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symphony.backends.registry import Backend

if TYPE_CHECKING:
    from symphony.backends.access import Access
    from symphony.backends.expand import Expander
    from symphony.backends.kubernetes import access, expand, observe, prerequisites
    from symphony.backends.observe import Observer
    from symphony.backends.prerequisites import Prerequisites

    _DOORS: tuple[Expander, Observer, Access, Prerequisites] = (expand, observe, access, prerequisites)

BACKEND = Backend(
    "kubernetes",
    "symphony.backends.kubernetes",
    aliases=("kube", "k8s", "gke"),
    plugins=("kubernetes",),
    cluster="symphony.classic.cluster:KubeCluster",
)
