"""Waits until an object is ready or gone, by watching it from the version in hand; for `objects`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from toolchain.plugin_kubernetes.api.connection import PATIENCE, Connection
from toolchain.plugin_kubernetes.api.readiness import Check, Hopeless
from toolchain.plugins.failures import Failure, Refused, Silent, Unreachable

DEFAULT_TIMEOUT = 600.0
# A watch that lasts longer than this is begun again after a look, lest an event was lost.
_ONE_WATCH = 7
# After a watch that went silent: together with it this is what a server that is gone may cost, 30 s.
_SECOND_CHANCE = 5
_POLL = 0.5

Body = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where one object lives."""

    collection: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.collection}/{self.name}"


class Waiting:
    """One for the plugin; every wait ends when the engine cancels."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def until_ready(self, place: Place, live: Body, check: Check, timeout: float) -> None:
        """Return once it is ready; `live` is kept up to date, so that a failure can say what there is."""
        missing: str | None = None
        for now in self._versions(place, live, timeout):
            if now is None:
                raise Failure("it was deleted while it was awaited")
            if now is not live:
                live.clear()
                live.update(now)
            missing = _missing(check, live)
            if missing is None:
                return
        raise Failure(f"timed out after {timeout:g} s: {missing}")

    def until_gone(self, place: Place, live: Body, timeout: float) -> None:
        """An object of the same name with another identity means that this one is gone."""
        uid = live["metadata"].get("uid")
        # What a delete returns may be of before or after it, so that a watch from there could see nothing.
        last = self._get(place.path)
        if last is None or last["metadata"]["uid"] != uid:
            return
        for now in self._versions(place, last, timeout):
            if now is None or now["metadata"]["uid"] != uid:
                return
            last = now
        held = last["metadata"].get("finalizers") or []
        because = f", held by {', '.join(held)}" if held else ""
        raise Failure(f"{place.name} is still there {timeout:g} s after its deletion{because}")

    def until_served(self, namespace: str, service: str, timeout: float) -> None:
        """Return once a ready pod stands behind a Service."""
        place = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        query = {"labelSelector": f"kubernetes.io/service-name={service}"}
        for _ in self._looks(timeout):
            slices = self._connection.request("GET", place, query).get("items") or []
            behind = [endpoint for result in slices for endpoint in result.get("endpoints") or []]
            if any(endpoint.get("conditions", {}).get("ready") is not False for endpoint in behind):
                return
        raise Failure(f"timed out after {timeout:g} s: no ready pod matches the selector of the service")

    def _versions(self, place: Place, live: Body, timeout: float) -> Iterator[Body | None]:
        """This version, then every newer one; None once it is gone. Ends with the timeout."""
        yield live
        deadline, version, watching = time.monotonic() + timeout, live["metadata"]["resourceVersion"], True
        while (left := deadline - time.monotonic()) > 0:
            patience = PATIENCE
            if watching:
                try:
                    for now in self._events(place, version, min(left, _ONE_WATCH)):
                        yield now
                        if now is None:
                            return
                except Refused as refused:
                    watching = refused.status != 403  # who may not watch may still look
                except Silent:
                    patience = _SECOND_CHANCE
                except Unreachable:
                    pass  # the next look says whether the server is back
            else:
                self._connection.pause(_POLL)
            result = self._get(place.path, patience)
            yield result
            if result is None:
                return
            version = result["metadata"]["resourceVersion"]

    def _events(self, place: Place, version: str, seconds: float) -> Iterator[Body | None]:
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={place.name}",
            "resourceVersion": version,
            "timeoutSeconds": str(max(1, int(seconds))),
        }
        for event in self._connection.stream(place.collection, query):
            if event["type"] == "ERROR":  # the version is too old for the server
                return
            yield None if event["type"] == "DELETED" else event["object"]

    def _get(self, path: str, patience: float = PATIENCE) -> Body | None:
        try:
            return self._connection.request("GET", path, patience=patience)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def _looks(self, timeout: float) -> Iterator[None]:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            yield
            self._connection.pause(_POLL)


def _missing(check: Check, live: Body) -> str | None:
    try:
        return check(live)
    except Hopeless as hopeless:
        raise Failure(str(hopeless)) from hopeless
