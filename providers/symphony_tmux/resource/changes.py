"""The differences of a process between state and program, as field names.

Pure. Fields that are not named here (grace, values of inherited variables) restart no process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
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
# What `check` adds to the inputs, so that a plain `pulumi preview` says why.
REASON, ORPHANS = "repair", "strays"
Props = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """changed: what to do something for; replaced: fields that need another resource; reason: of a repair."""

    changed: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    reason: str = ""


def changes(old: Props, new: Props) -> list[str]:
    """Return the changed fields for which a process is started again, replacing ones first."""
    return [name for name in (*REPLACED, *LAUNCHED) if _value(old, name) != _value(new, name)]


def replaces(old: Props, new: Props) -> list[str]:
    """Return the changed fields that need another window."""
    return [name for name in changes(old, new) if name in REPLACED]


def digest(inputs: Props) -> str:
    """Return a hash of all fields that `changes` compares, except the identity of the window."""
    facts = {name: _value(inputs, name) for name in LAUNCHED}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def fingerprint(inputs: Props) -> str:
    """Return what tells this start of a process from another, of its inputs or of its outputs."""
    server, session = inputs.get("server") or DEFAULT_SERVER, inputs["session"]
    return f"{server}/{session}/{digest(inputs)}"


def _value(props: Props, name: str) -> object:
    """Return a field in one form: a missing, null or empty one is the same to a process."""
    value: object = props.get(name)
    if name == "inherit":
        return sorted(cast("list[str]", value or []))
    return value or None
