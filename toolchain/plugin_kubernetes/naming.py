"""Gives an object its name and namespace and reads its annotations."""

from __future__ import annotations

import hashlib
from typing import Any

from pulumi.runtime.proto import provider_pb2

from toolchain.plugins.failures import Failure
from toolchain.plugins.values import UNKNOWN, Secret, plain

AUTONAMED = "pulumi.com/autonamed"
_Autonaming = provider_pb2.CheckRequest.AutonamingOptions


def named(
    inputs: dict[str, Any], old: dict[str, Any], resource: str, seed: bytes, autonaming: _Autonaming | None
) -> dict[str, Any]:
    """The inputs with a name: the one given, the one it had, else one made from the resource's."""
    metadata = _metadata(inputs)
    if metadata is None or metadata.get("name") is not None or metadata.get("generateName") is not None:
        return inputs
    name = plain(old).get("metadata", {}).get("name") if autonamed(old) else None
    name = name or _made(resource, seed, autonaming)
    annotations = {**(plain(metadata.get("annotations")) or {}), AUTONAMED: "true"}
    return {**inputs, "metadata": {**metadata, "name": name, "annotations": annotations}}


def _made(resource: str, seed: bytes, autonaming: _Autonaming | None) -> str:
    """The same in preview and update, because the engine gives both the same seed."""
    if autonaming is not None and autonaming.mode == _Autonaming.DISABLE:
        raise Failure(f"autonaming is off: give {resource} a metadata.name")
    if autonaming is not None and autonaming.proposed_name:
        return autonaming.proposed_name
    return f"{resource}-{hashlib.sha256(seed).hexdigest()[:8]}"


def in_namespace(inputs: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The inputs with this namespace where they name none."""
    metadata = _metadata(inputs)
    if metadata is None or metadata.get("namespace"):
        return inputs
    return {**inputs, "metadata": {**metadata, "namespace": namespace}}


def autonamed(inputs: dict[str, Any]) -> bool:
    return annotation(inputs, AUTONAMED) == "true"


def annotation(inputs: dict[str, Any], key: str) -> str:
    """The value of an annotation, '' when it is absent or not known yet."""
    annotations = plain(inputs.get("metadata"))
    annotations = annotations.get("annotations") if isinstance(annotations, dict) else None
    value = annotations.get(key) if isinstance(annotations, dict) else None
    return value if isinstance(value, str) else ""


def identity(body: dict[str, Any]) -> tuple[str, str]:
    """Namespace and name, '' for none."""
    metadata = plain(body).get("metadata") or {}
    return metadata.get("namespace") or "", metadata.get("name") or ""


def make_id(body: dict[str, Any]) -> str:
    namespace, name = identity(body)
    return f"{namespace}/{name}" if namespace else name


def parse_id(id: str) -> tuple[str, str]:
    namespace, _, name = id.rpartition("/")
    return namespace, name


def _metadata(inputs: dict[str, Any]) -> dict[str, Any] | None:
    """None when it is not known yet."""
    metadata = inputs.get("metadata")
    if isinstance(metadata, Secret):
        metadata = metadata.value
    return None if metadata is UNKNOWN else metadata or {}
