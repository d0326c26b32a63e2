"""Leases the TCP ports of services, so that no two experiments of a user share a port.

A lease lasts until the experiment is deleted (`release`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from caraml import service_env
from symphony import files, paths
from symphony_tmux import experiment_folder, listeners, variables

# The range of ports, unless the experiment sets its own.
RANGE = (20000, 29999)
# Seconds after which leases of an owner without a folder count as left from an interrupted deletion.
ABANDONED = 600.0


class OwnerLeases(msgspec.Struct, frozen=True):
    """The leases of an owner in the file, and when they were written."""

    ports: dict[str, int]
    time: float


@dataclass(frozen=True, slots=True)
class Leases:
    """ports: the port of each service; refused: why other services get none."""

    ports: dict[str, int] = field(default_factory=dict[str, int])
    refused: dict[str, str] = field(default_factory=dict[str, str])


def choose(owner: str, wanted: Mapping[str, int | None], within: tuple[int, int] | None = None) -> Leases:
    """Return the ports that `lease` would record now for services (None: any port).

    It writes nothing and takes no lock: the table is replaced as a whole.
    within: the first and the last port to choose from.
    """
    return _Choice(owner, wanted, _read(), within or RANGE).choose()


def lease(owner: str, wanted: Mapping[str, int | None], within: tuple[int, int] | None = None) -> Leases:
    """Replace the owner's leases by new ones, as `choose` does, unless a service is refused; return them."""
    with files.locked(_folder() / "ports.lock", seconds=10, what="the table of leased ports"):
        table = _read()
        leases = _Choice(owner, wanted, table, within or RANGE).choose()
        if not leases.refused:
            table[owner] = OwnerLeases(leases.ports, time.time())
            if not leases.ports:
                del table[owner]
            _write(table)
    return leases


def release(owner: str) -> None:
    """Release the owner's ports."""
    with files.locked(_folder() / "ports.lock", seconds=10, what="the table of leased ports"):
        table = _read()
        if table.pop(owner, None) is not None:
            _write(table)


def all_leases() -> dict[str, dict[str, int]]:
    """Return owner -> service -> port for every lease of the user."""
    return {owner: held.ports for owner, held in _read().items()}


def ports_of(owner: str) -> dict[str, int]:
    """Return the leased ports of an owner: service -> port."""
    held = _read().get(owner)
    return held.ports if held else {}


class _Choice:
    """Chooses ports, by the table of leases and the current listeners."""

    def __init__(
        self,
        owner: str,
        wanted: Mapping[str, int | None],
        table: dict[str, OwnerLeases],
        within: tuple[int, int],
    ) -> None:
        self.owner = owner
        self.choices = range(within[0], within[1] + 1)
        self.wanted = wanted
        self.table = table
        own = table.get(owner)
        ports = own.ports if own else {}
        self.own = {
            service: ports.get(service, ports.get(service_env.service_stem(service))) for service in wanted
        }
        self.others = {
            port: other for other, held in table.items() if other != owner for port in held.ports.values()
        }
        self.listeners = listeners.Listeners(owner)

    def choose(self) -> Leases:
        result = Leases()
        fixed = {service: port for service, port in self.wanted.items() if port is not None}
        kept = {
            service: held
            for service, port in self.wanted.items()
            if port is None and (held := self.own[service]) is not None and held in self.choices
        }
        for service, port in sorted(fixed.items()):
            if reason := self._why_unusable(port, result):
                result.refused[service] = reason
            else:
                result.ports[service] = port
        for service in sorted(service for service, port in self.wanted.items() if port is None):
            used = {*fixed.values(), *result.ports.values(), *kept.values()}
            if (port := self._choose_port(service, kept.get(service), used)) is not None:
                result.ports[service] = port
            else:
                first, last = self.choices[0], self.choices[-1]
                result.refused[service] = f"no port between {first} and {last} is free"
        return result

    def _why_unusable(self, port: int, result: Leases) -> str:
        if port in self.others:
            if not _is_abandoned(self.others[port], self.table):
                return f"port {port} is leased to experiment {paths.stack_of(self.others[port])}"
            self._drop_abandoned(self.others[port])
        if other_service := next((service for service, other in result.ports.items() if other == port), ""):
            return f"port {port} is also set for service {other_service}"
        stranger = self.listeners.stranger(port)
        return f"port {port} is in use by {stranger}" if stranger else ""

    def _drop_abandoned(self, abandoned: str) -> None:
        del self.table[abandoned]
        self.others = {port: owner for port, owner in self.others.items() if owner != abandoned}

    def _choose_port(self, service: str, kept: int | None, used: set[int]) -> int | None:
        if kept is not None and kept not in self.others and not self.listeners.stranger(kept):
            return kept
        for port in _candidates(self.owner, service, self.choices):
            if port not in self.others and port not in used and not self.listeners.is_listening(port):
                return port
        return None


def _candidates(owner: str, service: str, choices: range) -> Iterator[int]:
    """Yield all ports to choose from, always in the same order for a service."""
    start = int.from_bytes(hashlib.sha256(f"{owner}/{service}".encode()).digest()[:4], "big")
    order = [choices[(start + step) % len(choices)] for step in range(len(choices))]
    ephemeral = listeners.ephemeral()
    yield from (port for port in order if port not in ephemeral)
    yield from (port for port in order if port in ephemeral)


def _is_abandoned(owner: str, table: Mapping[str, OwnerLeases]) -> bool:
    return time.time() - table[owner].time > ABANDONED and owner not in experiment_folder.owners()


def _folder() -> Path:
    return paths.home() / "tmux"


def _read() -> dict[str, OwnerLeases]:
    """Return the table; if it is missing or damaged, rebuild it from the experiments' files."""
    table = experiment_folder.read_json(_folder() / "ports.json", dict[str, OwnerLeases])
    return _rebuilt() if table is None else table


def _rebuilt() -> dict[str, OwnerLeases]:
    """Return the leases by the files of experiments; services have the names of their variables."""
    table: dict[str, OwnerLeases] = {}
    for folder in experiment_folder.folders():
        if owner := experiment_folder.owner_of(folder):
            services_of = variables.read(folder / variables.SERVICES)
            ports = {
                name.removeprefix(service_env.PREFIX).removesuffix("_PORT"): int(port)
                for name, port in services_of.items()
                if name.startswith(service_env.PREFIX) and name.endswith("_PORT") and port.isdecimal()
            }
            table[owner] = OwnerLeases(ports, time.time())
    return table


def _write(table: Mapping[str, OwnerLeases]) -> None:
    files.replace(_folder() / "ports.json", msgspec.json.encode(table), durable=True)
