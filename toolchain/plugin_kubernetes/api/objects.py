"""Creates, changes, reads and deletes objects of one cluster by server-side apply; for the RPCs."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from toolchain.plugin_kubernetes import state
from toolchain.plugin_kubernetes.api import readiness
from toolchain.plugin_kubernetes.api.access import Access
from toolchain.plugin_kubernetes.api.connection import Connection
from toolchain.plugin_kubernetes.api.kinds import Kind, Kinds, UnknownKind
from toolchain.plugin_kubernetes.api.waiting import DEFAULT_TIMEOUT, Place, Waiting
from toolchain.plugin_kubernetes.naming import annotation, identity, make_id, parse_id
from toolchain.plugin_kubernetes.settings import Settings
from toolchain.plugins.failures import Canceled, Failure, NotLive, Refused
from toolchain.plugins.values import plain

# No object ever has the first revision of the store: an apply that names it only succeeds as a create.
_NEVER = "1"
_APPLY = "apply-patch+yaml"

Body = dict[str, Any]


class Objects:
    """The objects of one cluster as one provider resource describes them."""

    def __init__(self, access: Access, settings: Settings, say: Callable[[str], None]) -> None:
        self._say = say
        self._connection = Connection(access)
        self._kinds = Kinds(self._connection)
        self._waiting = Waiting(self._connection)
        self._settings = settings

    def cancel(self) -> None:
        self._connection.cancel()

    def namespaced(self, inputs: Body) -> bool:
        return self._kind(inputs).namespaced

    def rehearse_create(self, inputs: Body) -> None:
        """Have the server judge the object without making it; what a preview cannot tell is no objection.

        A provider that may upsert has it judged as a change of an object that is there, as Pulumi's own does:
        of one that is to be replaced it takes "field is immutable" for no objection, and any other for one.
        """
        body = plain(inputs)
        rehearsed = {"dryRun": "All", "fieldManager": "preview"}
        namespace, name = identity(body)
        try:
            kind = self._kind(body)
            if self._settings.upsert and name:
                query = {**rehearsed, "force": "true"}
                self._connection.request("PATCH", kind.path(namespace, name), query, body, _APPLY)
            else:
                self._connection.request("POST", kind.collection(namespace), rehearsed, body)
        except Refused as refused:
            # Forbidden, namespace or definition not there yet, an older object of the name still there.
            if refused.status not in (403, 404, 409) and "field is immutable" not in str(refused):
                raise

    def create(self, inputs: Body, timeout: float) -> tuple[str, Body]:
        """Make it; an object of that name that is there is an error unless the provider may upsert."""
        body = plain(inputs)
        manager = (
            annotation(body, "pulumi.com/patchFieldManager") or f"pulumi-kubernetes-{secrets.token_hex(4)}"
        )
        live = self._made(self._kind(body), body, manager)
        return self._settled(live, inputs, manager, timeout)

    def update(self, id: str, old: Body, inputs: Body, timeout: float, *, preview: bool) -> tuple[str, Body]:
        """Bring the object to the new inputs; never an object that only has the same name."""
        body = plain(inputs)
        manager = old.get(state.FIELD_MANAGER) or "pulumi-kubernetes"
        uid = old.get("metadata", {}).get("uid")
        exact = {**body, "metadata": {**body["metadata"], **({"uid": uid} if uid else {})}}
        query = self._query(body, manager) | ({"dryRun": "All"} if preview else {})
        try:
            live = self._connection.request("PATCH", self._path(body), query, exact, _APPLY)
        except Refused as refused:
            if preview and refused.status == 403:
                return id, state.expected(inputs)
            raise self._conflict(refused, self._path(body), uid) from refused
        if preview:
            return id, state.outputs(live, inputs, manager)
        return self._settled(live, inputs, manager, timeout)

    def read(
        self, id: str, api_version: str, kind: str, old: Body, inputs: Body
    ) -> tuple[str, Body, Body] | None:
        """Identity, outputs and inputs as they are now; None when it is gone."""
        namespace, name = parse_id(id)
        try:
            live = self._seen(self._kinds.find(api_version, kind).path(namespace, name))
        except UnknownKind:
            return None
        if live is None:
            return None
        live = {"apiVersion": api_version, "kind": kind, **live}
        now = state.inputs_of(live, inputs)
        manager = old.get(state.FIELD_MANAGER) or f"pulumi-kubernetes-{secrets.token_hex(4)}"
        return id, state.outputs(live, now, manager), now

    def delete(self, id: str, old: Body, inputs: Body, timeout: float) -> None:
        """Delete it and wait until it is gone; what is gone already, or another's by now, is no error."""
        namespace, name = parse_id(id)
        wanted = annotation(inputs or old, "pulumi.com/deletionPropagationPolicy").lower()
        policy = {"orphan": "Orphan", "background": "Background"}.get(wanted, "Foreground")
        uid = old.get("metadata", {}).get("uid")
        exactly = {"preconditions": {"uid": uid}} if uid else {}
        try:
            place = Place(self._kind(old or inputs).collection(namespace), name)
        except UnknownKind:
            return
        try:
            answer = self._connection.request(
                "DELETE", place.path, body={"propagationPolicy": policy, **exactly}
            )
        except Refused as refused:
            if refused.status == 404:
                return
            if refused.status == 409 and uid and self._is_another(place.path, uid):
                self._say(f"{id} is gone; what has its name by now is not of this stack and stays")
                return
            raise
        skipped = annotation(inputs or old, readiness.SKIP).lower() == "true"
        if answer.get("kind") != "Status" and not skipped:
            self._waiting.until_gone(place, answer, _timeout(inputs or old, timeout))

    def _made(self, kind: Kind, body: Body, manager: str) -> Body:
        namespace, name = identity(body)
        if not name:  # metadata.generateName: only the server knows the name
            return self._connection.request(
                "POST", kind.collection(namespace), {"fieldManager": manager}, body
            )
        sent = body
        if not self._settings.upsert:
            sent = {**body, "metadata": {**body["metadata"], "resourceVersion": _NEVER}}
        path = kind.path(namespace, name)
        try:
            return self._connection.request("PATCH", path, self._query(body, manager), sent, _APPLY)
        except Refused as refused:
            if refused.status != 409 or self._settings.upsert:
                raise
            result = self._seen(path)
            if result is None:
                raise
            return self._ours(result, manager, make_id(body))

    def _ours(self, value: Body, manager: str, id: str) -> Body:
        """The object, if an earlier attempt of this very create made it and its answer was lost."""
        managers = {each.get("manager") for each in value["metadata"].get("managedFields") or []}
        if manager not in managers:
            raise Failure(f"resource {id} already exists, and this stack did not create it")
        return value

    def _settled(self, live: Body, inputs: Body, manager: str, timeout: float) -> tuple[str, Body]:
        """Wait for the object; from here on it exists, so every failure carries it."""
        id = make_id(live)
        try:
            check = readiness.check_for(inputs)
            if check is not None:
                namespace, name = identity(live)
                seconds = _timeout(inputs, timeout)
                place = Place(self._kind(live).collection(namespace), name)
                self._waiting.until_ready(place, live, check, seconds)
                if readiness.needs_endpoints(inputs, live):
                    self._waiting.until_served(namespace, name, seconds)
        except Failure as failure:
            why = "canceled" if isinstance(failure, Canceled) else str(failure)
            raise NotLive(id, state.outputs(live, inputs, manager), inputs, why) from failure
        return id, state.outputs(live, inputs, manager)

    def _query(self, body: Body, manager: str) -> dict[str, str]:
        force = self._settings.patch_force or annotation(body, "pulumi.com/patchForce").lower() == "true"
        return {"fieldManager": manager, "force": "true" if force else "false"}

    def _conflict(self, refused: Refused, place: str, uid: str | None) -> Failure:
        """Refused because it is not the same object any more, or for what the server says."""
        if refused.status not in (404, 409, 422):
            return refused
        now = self._seen(place)
        if (now is None and refused.status != 422) or (now and uid and now["metadata"]["uid"] != uid):
            return Failure(f"{place} is not there as this stack made it any more: run `pulumi refresh`")
        return refused

    def _is_another(self, path: str, uid: str) -> bool:
        now = self._seen(path)
        return now is None or now["metadata"]["uid"] != uid

    def _seen(self, path: str) -> Body | None:
        try:
            return self._connection.request("GET", path)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def _kind(self, body: Body) -> Kind:
        return self._kinds.find(body["apiVersion"], body["kind"])

    def _path(self, body: Body) -> str:
        return self._kind(body).path(*identity(body))


def _timeout(inputs: Body, asked: float) -> float:
    """The resource option, else the annotation, else ten minutes."""
    if asked:
        return asked
    written = annotation(inputs, readiness.TIMEOUT)
    return float(written) if written.isdecimal() else DEFAULT_TIMEOUT
