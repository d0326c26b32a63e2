"""What the engine keeps of an object: its live form, and inputs in line with it when it is read; pure."""

from __future__ import annotations

import base64
from typing import Any

from toolchain.plugins.values import UNKNOWN, Secret, mark_like, plain

FIELD_MANAGER = "__fieldManager"
FIRST_VERSION = "__initialApiVersion"
_SERVER_OWNED = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
_SECRET_FIELDS = ("data", "stringData")


def clean(inputs: dict[str, Any]) -> dict[str, Any]:
    """Inputs without what only the server sets, the contents of a Secret marked secret."""
    kept = {key: value for key, value in inputs.items() if key not in ("status", "__inputs")}
    metadata = kept.get("metadata")
    if isinstance(metadata, dict):
        kept["metadata"] = {key: value for key, value in metadata.items() if key not in _SERVER_OWNED}
    return _guarded(kept)


def outputs(live: dict[str, Any], inputs: dict[str, Any], manager: str) -> dict[str, Any]:
    """The live object, secret wherever the inputs are, and who manages its fields."""
    kept = dict(live)
    kept["metadata"] = {key: value for key, value in live["metadata"].items() if key != "managedFields"}
    marked = _guarded(mark_like(kept, inputs))
    return {**marked, FIRST_VERSION: live["apiVersion"], FIELD_MANAGER: manager}


def expected(inputs: dict[str, Any]) -> dict[str, Any]:
    """Outputs in a preview of a create: what the server will add is not known yet."""
    metadata = inputs.get("metadata")
    if isinstance(metadata, dict):
        unknown = dict.fromkeys(("uid", "resourceVersion", "creationTimestamp", "generation"), UNKNOWN)
        metadata = {**unknown, **metadata}
        if "generateName" in metadata and "name" not in metadata:
            metadata["name"] = UNKNOWN
    spec = inputs.get("spec")
    if inputs.get("kind") == "Service" and isinstance(spec, dict):
        spec = {"clusterIP": UNKNOWN, "clusterIPs": UNKNOWN, **spec}
    known = {**inputs, "metadata": metadata, "status": UNKNOWN}
    return {**known, "spec": spec} if spec is not None else known


def inputs_of(live: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """Inputs after a read: the old ones with the live values, or (import) what a program could have said."""
    if not old:
        return clean({key: value for key, value in live.items() if key != "status"})
    return _guarded(mark_like(_overlaid(plain(old), _readable(live)), old))


def _overlaid(old: Any, live: Any) -> Any:
    """Live values at the places that the old inputs had; what the server filled in itself stays out."""
    if isinstance(old, dict) and isinstance(live, dict):
        return {key: _overlaid(value, live[key]) for key, value in old.items() if key in live}
    if isinstance(old, list) and isinstance(live, list) and len(old) <= len(live):
        # The server appends to lists (a token volume, say), it never inserts.
        return [_overlaid(each, now) for each, now in zip(old, live, strict=False)]
    return live


def _readable(live: dict[str, Any]) -> dict[str, Any]:
    """A Secret's data also as the strings in which programs may have given them."""
    if live.get("kind") != "Secret":
        return live
    decoded = {
        key: base64.b64decode(value).decode(errors="replace") for key, value in live.get("data", {}).items()
    }
    return {**live, "stringData": decoded}


def _guarded(body: dict[str, Any]) -> dict[str, Any]:
    if body.get("kind") != "Secret":
        return body
    return {
        key: Secret(plain(value)) if key in _SECRET_FIELDS and value is not UNKNOWN else value
        for key, value in body.items()
    }
