"""Waits until an object is ready or gone, by looking at it again, ever more slowly; the writes in `objects` call it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from toolchain.plugin_kubernetes.connection import Connection
from toolchain.plugin_kubernetes.failures import Canceled, Failure, Refused
from toolchain.plugin_kubernetes.readiness import Check, Hopeless

DEFAULT_TIMEOUT = 600.0
LONGEST_PAUSE = 0.5


class Waiting:
    """One for the plugin; every wait ends when the engine cancels."""

    def __init__(self, connection: Connection, canceled: threading.Event) -> None:
        self._connection = connection
        self._canceled = canceled

    def until_ready(self, path: str, live: dict[str, Any], check: Check, timeout: float) -> dict[str, Any]:
        """The object once it is ready; Failure says what was missing, with the object as last seen in `live`."""
        missing = self._missing(check, live)
        for _ in self._looks(timeout):
            if missing is None:
                return live
            found = self._get(path)
            if found is None:
                raise Failure("it was deleted while it was awaited")
            live.clear()
            live.update(found)
            missing = self._missing(check, live)
        raise Failure(f"timed out: {missing}")

    def until_gone(self, path: str, uid: str, timeout: float) -> None:
        """An object of the same name with another identity means that this one is gone."""
        found: dict[str, Any] | None = None
        for _ in self._looks(timeout):
            found = self._get(path)
            if found is None or (uid and found["metadata"].get("uid") != uid):
                return
        held = (found or {}).get("metadata", {}).get("finalizers") or []
        raise Failure(f"it is still there after {timeout:g} s{' held by ' + ', '.join(held) if held else ''}")

    def endpoints(self, namespace: str, service: str) -> Check:
        """A check that ignores the Service itself and looks for an address that serves it."""
        place = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        query = {"labelSelector": f"kubernetes.io/service-name={service}"}

        def check(_: dict[str, Any]) -> str | None:
            slices = self._connection.request("GET", place, query).body.get("items") or []
            each = [endpoint for found in slices for endpoint in found.get("endpoints") or []]
            serves = any(endpoint.get("conditions", {}).get("ready") is not False for endpoint in each)
            return None if serves else "no ready pod matches its selector"

        return check

    def _missing(self, check: Check, live: dict[str, Any]) -> str | None:
        try:
            return check(live)
        except Hopeless as hopeless:
            raise Failure(str(hopeless)) from hopeless

    def _get(self, path: str) -> dict[str, Any] | None:
        try:
            return self._connection.request("GET", path).body
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def _looks(self, timeout: float) -> Iterator[None]:
        deadline, pause = time.monotonic() + timeout, 0.01
        while True:
            yield
            if time.monotonic() > deadline:
                return
            if self._canceled.wait(pause):
                raise Canceled("canceled while waiting")
            pause = min(pause * 1.5, LONGEST_PAUSE)
