"""The Services of a plan: one for each service, headless unless it is exposed. Pure."""

from __future__ import annotations

from typing import Any

from symphony.backends.kubernetes.manifests import labels
from symphony.backends.kubernetes.settings import Settings
from symphony.plan.plan import Plan, PlannedService


def service(plan: Plan, planned: PlannedService, settings: Settings, owner: str) -> dict[str, Any]:
    """The manifest of a Service.

    A bound one has no address of its own: its name is the pod's address, so that all ports and protocols work
    and nothing stands between two processes. An exposed one has the type that the stack asks for.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": settings.named(planned.name),
            "namespace": plan.launched_as,
            "labels": labels.of_object(settings.shared_as or plan.launched_as),
            "annotations": {**labels.EXISTS, labels.OWNER: owner},
        },
        "spec": {
            "selector": {labels.POD: settings.named(planned.path.partition("/")[0])},
            "ports": [
                {"name": "service", "port": planned.port, "targetPort": planned.port, "protocol": "TCP"}
            ],
            # A name that is known as soon as the pod has an address: processes look for each other at once.
            "publishNotReadyAddresses": True,
            **(_outside(settings) if planned.exposed else {"type": "ClusterIP", "clusterIP": "None"}),
        },
    }


def _outside(settings: Settings) -> dict[str, Any]:
    if settings.expose == "LoadBalancer":
        return {"type": "LoadBalancer", "loadBalancerSourceRanges": list(settings.source_ranges)}
    return {"type": settings.expose}
