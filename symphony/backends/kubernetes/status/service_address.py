"""Reads the external addresses of services, and which services have none yet. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from symphony.backends.kubernetes.api.fields import Values, listing, mapping, text
from symphony.backends.kubernetes.manifests import labels

LOAD_BALANCER = "LoadBalancer"
PENDING = "its LoadBalancer has no address yet"


def balanced(inputs: Values) -> tuple[str, str] | None:
    """Return (pod, name) of a recorded Service with a load balancer; None for other Services."""
    if text(inputs, "spec", "type") != LOAD_BALANCER:
        return None
    return text(inputs, "spec", "selector", labels.POD), text(inputs, "metadata", "name")


def pending(services: Iterable[Values]) -> set[str]:
    """Return the services that wait for the address of their load balancer."""
    return {
        text(service, "metadata", "name")
        for service in services
        if text(service, "spec", "type") == LOAD_BALANCER and not addresses(service)
    }


def summary(service: Values, node: str) -> str:
    """Return `web: NodePort 31234, on 10.0.0.7:31234 and every other node`; empty for a ClusterIP."""
    name, kind = text(service, "metadata", "name"), text(service, "spec", "type")
    ports = listing(service, "spec", "ports")
    if kind == LOAD_BALANCER:
        where = ", ".join(f"{host}:{text(port, 'port')}" for host in addresses(service) for port in ports)
        return f"{name}: {where}" if where else f"{name}: {PENDING}"
    if kind == "NodePort":
        node_ports = ", ".join(text(port, "nodePort") for port in ports)
        return f"{name}: NodePort {node_ports}, on {node}:{node_ports} and every other node"
    if kind == "ClusterIP" and text(service, "spec", "clusterIP") not in ("", "None"):
        inner_ports = ", ".join(text(port, "port") for port in ports)
        return f"{name}: inside the cluster only, {text(service, 'spec', 'clusterIP')}:{inner_ports}"
    return ""


def addresses(service: Values) -> list[str]:
    """Return the external addresses of a load balancer; empty until the cloud assigns them."""
    ingresses = listing(mapping(service, "status", "loadBalancer"), "ingress")
    return [host for ingress in ingresses if (host := text(ingress, "ip") or text(ingress, "hostname"))]
