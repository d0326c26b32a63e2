"""The Kubernetes backend's `access`: runs commands, copies files and forwards ports of containers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from symphony import paths
from symphony.backends.access import Copied, OnBytes, ServiceRoute, Streams
from symphony.backends.kubernetes import exec as pod_exec
from symphony.backends.kubernetes import inventory
from symphony.backends.kubernetes.api.fields import text
from symphony.backends.kubernetes.exec import Container
from symphony.backends.kubernetes.identity import client_for
from symphony.backends.observe import Recorded

# A login shell, bash if the image has it.
_SHELL = ("sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash -l || exec sh -l")


def execute(recorded: Recorded, path: str, words: Sequence[str], streams: Streams) -> int:
    """Run a command in the container of a process to its end; return its exit code."""
    return pod_exec.execute(_container(recorded, path), words, streams)


def shell(recorded: Recorded, path: str, streams: Streams) -> int:
    """Run a login shell in the container of a process; return its exit code."""
    return pod_exec.execute(_container(recorded, path), _SHELL, streams)


def send(recorded: Recorded, path: str, source: Path, place: str, on_bytes: OnBytes) -> Copied:
    """Copy `source` to `place` in the container of the process `path`; its image needs sh and tar."""
    # Imported only by the commands that use it.
    from symphony.backends.kubernetes import copy

    return copy.send(_container(recorded, path), source, place, on_bytes)


def fetch(recorded: Recorded, path: str, place: str, target: Path, on_bytes: OnBytes) -> Copied:
    """Copy `place` in the container of the process `path` to `target`; its image needs sh and tar."""
    from symphony.backends.kubernetes import copy

    return copy.fetch(_container(recorded, path), place, target, on_bytes)


def route(recorded: Recorded, service: str, address: str) -> ServiceRoute:
    """Return the route to a service: its exposed address, if any, and a forward to open on demand."""
    from symphony.backends.kubernetes import port_forward

    # The address begins with the name of the Service, which differs from `service` in a shared namespace.
    name = address.partition(".")[0]
    return port_forward.route(client_for(recorded), recorded.physical_name, name)


def _container(recorded: Recorded, path: str) -> Container:
    process, client, namespace = recorded.processes[path], client_for(recorded), recorded.physical_name
    pod = str(process["pod_name"])
    if process.get("controller"):
        # A Job chooses the names of its pods.
        pod = text(inventory.pod_of(client, namespace, pod), "metadata", "name") or pod
    stack = paths.stack_of(recorded.owner)
    return Container(stack, client, namespace, path, pod, str(process["container_name"]))
