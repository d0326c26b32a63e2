"""Finds the route to a service of the cluster: its external address, else a forwarded port."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from symphony.backends.access import Forward, ServiceRoute
from symphony.backends.kubernetes import inventory, pod_status, reasons
from symphony.backends.kubernetes.api import channels
from symphony.backends.kubernetes.api.channels import Channels
from symphony.backends.kubernetes.api.client import CONNECT_DEADLINE, Client, Refused, path_of
from symphony.backends.kubernetes.api.fields import listing, mapping, text
from symphony.backends.kubernetes.manifests import labels, workloads
from symphony.errors import SymphonyError

_PROTOCOLS = ("v4.channel.k8s.io",)
_DATA, _ERROR = 0, 1
_PIECE = 64 * 1024
# How long a client that has sent everything may wait for the next piece of its answer.
_LINGER = 60.0


def route(client: Client, namespace: str, service: str) -> ServiceRoute:
    """Return a forward, with the address of a load balancer or a node port if there is one."""
    body = client.find(path_of("services", namespace, service))
    if body is None:
        raise SymphonyError(
            f"the Service {service} no longer exists in namespace {namespace}",
            remedy="`symphony up` re-creates it",
        )
    kind = text(body, "spec", "type")
    address = ""
    if kind == "LoadBalancer":
        port = text(_port(body), "port")
        address = next((_address(host, port) for host in reasons.addresses(body)), "")
    elif kind == "NodePort":
        address = _node_address(client, namespace, body)
    forward = partial(_forward, client, namespace, service)
    return ServiceRoute(address, forward, _why_silent(client, namespace, service, body))


def _why_silent(client: Client, namespace: str, service: str, body: Mapping[str, Any]) -> str:
    """Return why no process answers behind a Service; empty if a process runs there."""
    name = text(body, "spec", "selector", labels.POD)
    pod = inventory.pod_of(client, namespace, name)
    if pod is None:
        return f"no process serves {service}: its pod {name} no longer exists"
    statuses = [pod_status.status(process, process, pod) for process in workloads.names_of(pod)]
    if any(status.state == "running" for status in statuses):
        return ""
    first = next((status for status in statuses if status.state != "completed"), statuses[-1])
    why = f": {first.why}" if first.why else ""
    return f"no process serves {service}: {first.path} is {first.state}{why}"


def _node_address(client: Client, namespace: str, service: Mapping[str, Any]) -> str:
    """Return the address of the pod's node if it answers, else an empty string."""
    pod, port = _pod_of(client, namespace, service), text(_port(service), "nodePort")
    name = text(pod, "spec", "nodeName")
    try:
        node = client.find(path_of("nodes", name=name)) if name else None
    except Refused:
        # Many users may not read nodes.
        node = None
    addresses = listing(node, "status", "addresses")
    hosts = [text(address, "address") for address in addresses if address.get("type") == "ExternalIP"]
    for host in (*hosts, text(pod, "status", "hostIP")):
        # A cloud's firewall closes the ports of nodes by default.
        with contextlib.suppress(OSError, ValueError):
            socket.create_connection((host, int(port)), CONNECT_DEADLINE / 2).close()
            return _address(host, port)
    return ""


@contextmanager
def _forward(client: Client, namespace: str, service: str) -> Generator[Forward]:
    """Forward a free loopback port of this machine during the block."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        forwarding = _Forwarding(client, namespace, service, server)
        threading.Thread(target=forwarding.accept, daemon=True).start()
        try:
            yield forwarding
        finally:
            forwarding.close()


class _Forwarding:
    """A listening port; each connection goes to the pod that then serves the service."""

    def __init__(self, client: Client, namespace: str, service: str, server: socket.socket) -> None:
        self.address = f"127.0.0.1:{server.getsockname()[1]}"
        self._client, self._namespace, self._service = client, namespace, service
        self._server = server
        self._troubles: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._open: set[Channels] = set()

    def troubles(self) -> Iterator[str]:
        """Yield the reasons why connections failed, without immediate repetitions; never end."""
        last = ""
        while True:
            # With a timeout, since Ctrl-C that another thread receives would not end the wait.
            with contextlib.suppress(queue.Empty):
                if (trouble := self._troubles.get(timeout=0.5)) != last:
                    yield trouble
                last = trouble

    def accept(self) -> None:
        """Accept connections until the port is closed."""
        while True:
            try:
                client_socket, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client_socket,), daemon=True).start()

    def close(self) -> None:
        """Close the port and end every connection."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        for connection in list(self._open):
            connection.close()

    def _carry(self, client_socket: socket.socket) -> None:
        with client_socket:
            try:
                connection = self._connect()
            except SymphonyError as error:
                self._troubles.put(str(error))
                return
            self._open.add(connection)
            with connection:
                delivered = threading.Event()
                pump = threading.Thread(
                    target=_pump, args=(client_socket, connection, delivered), daemon=True
                )
                pump.start()
                try:
                    self._deliver(connection, client_socket, delivered)
                finally:
                    self._open.discard(connection)
                    with contextlib.suppress(OSError):
                        client_socket.shutdown(socket.SHUT_RDWR)

    def _connect(self) -> Channels:
        service = self._client.get(path_of("services", self._namespace, self._service))
        pod = _pod_of(self._client, self._namespace, service)
        if not pod:
            raise SymphonyError(
                f"no process serves {self._service} now",
                remedy="`symphony process` shows why; connect again when the process runs",
            )
        path = path_of("pods", self._namespace, text(pod, "metadata", "name"))
        query = [("ports", text(_port(service), "targetPort"))]
        return Channels(self._client, f"{path}/portforward", query, _PROTOCOLS)

    def _deliver(
        self, connection: Channels, client_socket: socket.socket, delivered: threading.Event
    ) -> None:
        """Forward data from the pod to the client. The first message of each stream only repeats the port."""
        seen: set[int] = set()
        try:
            for channel, data in connection:
                if channel not in seen:
                    seen.add(channel)
                elif channel == _DATA:
                    client_socket.sendall(data)
                    delivered.set()
                elif channel == _ERROR and data:
                    self._troubles.put(f"{self._service} does not answer: {_reason(data)}.")
        except OSError:
            # The client has closed its connection.
            return
        except SymphonyError as error:
            self._troubles.put(str(error))


def _reason(error: bytes) -> str:
    """Return a container runtime's message about a port, shortened."""
    text = " ".join(error.decode(errors="replace").split())
    return "no program listens on its port" if "connection refused" in text else text[-200:]


def _pump(client_socket: socket.socket, connection: Channels, delivered: threading.Event) -> None:
    """Forward data from the client to the pod.

    The protocol cannot close one direction, nor show whether a client that has sent everything is gone or
    waits for an answer; so the connection stays open until the answers stop.
    """
    with contextlib.suppress(OSError):
        while data := client_socket.recv(_PIECE):
            connection.send(channels.STDIN, data)
        while delivered.wait(_LINGER):
            delivered.clear()
    connection.close()


def _pod_of(client: Client, namespace: str, service: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the running pod behind a Service; empty if there is none."""
    name = text(service, "spec", "selector", labels.POD)
    for pod in client.items(path_of("pods", namespace), labelSelector=f"{labels.POD}={name}"):
        ends = mapping(pod, "metadata").get("deletionTimestamp")
        if text(pod, "status", "phase") == "Running" and not ends:
            return pod
    return {}


def _port(service: Mapping[str, Any]) -> Mapping[str, Any]:
    ports = listing(service, "spec", "ports")
    return ports[0] if ports else {}


def _address(host: str, port: str) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
