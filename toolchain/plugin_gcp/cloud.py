"""The resources of the fake cloud: one file for each, with the requested properties."""

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

from symphony import paths


class Failure(Exception):
    """An operation that Google would refuse, with its message."""


# The seconds that Google takes for a cluster or a pool, for tests that kill a run midway.
_SECONDS = float(os.environ.get("SYMPHONY_GCP_SECONDS", "0"))
_IDS = {
    "gcp:container/cluster:Cluster": "projects/{project}/locations/{location}/clusters/{name}",
    "gcp:container/nodePool:NodePool": (
        "projects/{project}/locations/{location}/clusters/{cluster}/nodePools/{name}"
    ),
    "gcp:artifactregistry/repository:Repository": (
        "projects/{project}/locations/{location}/repositories/{repositoryId}"
    ),
    "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember": (
        "projects/{project}/locations/{location}/repositories/{repository}/{role}/{member}"
    ),
    "gcp:serviceaccount/account:Account": (
        "projects/{project}/serviceAccounts/{accountId}@{project}.iam.gserviceaccount.com"
    ),
    "gcp:projects/iAMMember:IAMMember": "{project}/{role}/{member}",
    "gcp:compute/network:Network": "projects/{project}/global/networks/{name}",
    "gcp:compute/subnetwork:Subnetwork": "projects/{project}/regions/{region}/subnetworks/{name}",
}
TYPES = frozenset(_IDS)
# Granting an existing permission changes nothing.
_IDEMPOTENT = frozenset(type_ for type_ in _IDS if "IamMember" in type_ or "IAMMember" in type_)


def id_of(type_: str, inputs: dict[str, Any]) -> str:
    """Return Google's name of a resource."""
    return _IDS[type_].format_map(inputs)


def create(type_: str, inputs: dict[str, Any]) -> str:
    """Record a new resource and return its id. Raises Failure if the name is taken."""
    id = id_of(type_, inputs)
    file = _file(id)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with file.open("x") as opened:
            json.dump({"type": type_, "id": id, "inputs": inputs}, opened)
    except FileExistsError as error:
        if type_ not in _IDEMPOTENT:
            raise Failure(f"googleapi: Error 409: Already exists: {id}., alreadyExists") from error
    return id


def update(id: str, inputs: dict[str, Any]) -> None:
    kept = _read(id)
    if kept is None:
        raise Failure(f"googleapi: Error 404: Not found: {id}., notFound")
    partial = _file(id).with_suffix(".partial")
    partial.write_text(json.dumps({**kept, "inputs": inputs}))
    partial.replace(_file(id))


def find(id: str) -> dict[str, Any] | None:
    """Return the requested properties, or None if the resource does not exist."""
    kept = _read(id)
    return kept["inputs"] if kept else None


def delete(id: str) -> None:
    _file(id).unlink(missing_ok=True)


def take_time() -> None:
    """Wait as long as Google would take to create or delete a resource, which exists meanwhile."""
    time.sleep(_SECONDS)


def _read(id: str) -> dict[str, Any] | None:
    try:
        return json.loads(_file(id).read_text())
    except FileNotFoundError:
        return None


def _file(id: str) -> Path:
    return _folder() / f"{hashlib.sha256(id.encode()).hexdigest()[:20]}.json"


def _folder() -> Path:
    return paths.home() / "gcp-stand-in"
