"""The changes of a process between state and program, as field names.

Changes of other fields (grace, values of inherited variables) do not restart a process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from symphony.paths import DEFAULT_SERVER

REPLACED = ("owner", "server", "session", "path")
LAUNCHED = (
    "argv",
    "script",
    "preamble",
    "cwd",
    "env",
    "secret_digests",
    "inherit",
    "restart_policy",
    "services",
)
Props = Mapping[str, Any]


def changes(old: Props, new: Props, fields: Iterable[str] = (*REPLACED, *LAUNCHED)) -> list[str]:
    """Return the changed fields that restart a process, those that replace its window first."""
    return [name for name in fields if _value(old, name) != _value(new, name)]


def digest(inputs: Props, fields: Iterable[str] = LAUNCHED) -> str:
    """Return a hash of all fields that `changes` compares, except the identity of the resource."""
    launched = {name: _value(inputs, name) for name in fields}
    return hashlib.sha256(json.dumps(launched, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[
        :32
    ]


def fingerprint(inputs: Props) -> str:
    """Return the fingerprint of a process, from its inputs or its outputs."""
    server, session = inputs.get("server") or DEFAULT_SERVER, inputs["session"]
    return f"{server}/{session}/{digest(inputs)}"


def _value(props: Props, name: str) -> object:
    """Return a field in canonical form: missing, null and empty values are the same."""
    value: object = props.get(name)
    if name == "inherit":
        return sorted(cast("list[str]", value or []))
    return value or None
