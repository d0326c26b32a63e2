"""Which path of the API serves a kind, and whether it is namespaced; asked of the server once a version."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from toolchain.plugin_kubernetes.api.connection import Connection
from toolchain.plugins.failures import Refused


@dataclass(frozen=True)
class Kind:
    """One kind of object as the server names it."""

    base: str
    plural: str
    namespaced: bool

    def collection(self, namespace: str) -> str:
        place = f"/namespaces/{namespace or 'default'}" if self.namespaced else ""
        return f"{self.base}{place}/{self.plural}"

    def path(self, namespace: str, name: str) -> str:
        return f"{self.collection(namespace)}/{name}"


class UnknownKind(Refused):
    """The server has no such kind: its definition was never made, or is gone."""


class Kinds:
    """Answers from memory after the first question about an API version."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[str, dict[str, Kind]] = {}
        self._lock = threading.Lock()

    def find(self, api_version: str, kind: str) -> Kind:
        with self._lock:
            if kind not in self._known.get(api_version, {}):  # a definition may have come since
                self._known[api_version] = self._ask(api_version)
            result = self._known[api_version].get(kind)
        if result is None:
            raise UnknownKind(404, "NoMatch", f'no matches for kind "{kind}" in version "{api_version}"')
        return result

    def _ask(self, api_version: str) -> dict[str, Kind]:
        base = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            listed: list[dict[str, Any]] = self._connection.request("GET", base).get("resources", [])
        except Refused as refused:
            if refused.status == 404:
                return {}
            raise
        whole = [each for each in listed if "/" not in each["name"]]
        return {each["kind"]: Kind(base, each["name"], each["namespaced"]) for each in whole}
