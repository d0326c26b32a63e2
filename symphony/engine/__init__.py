"""Drives the Pulumi engine: its installation, projects, state, runs and errors.

The classic names (`from symphony.engine import *`) live in symphony.classic, loaded when asked for.
"""

import importlib
from typing import Any

_CLASSIC = ("AddressBook", "Cluster", "ExperimentSpec", "ProcessGroupSpec", "ProcessSpec", "SymphonyConfig")
globals()["__all__"] = _CLASSIC


def __getattr__(name: str) -> Any:
    if name in _CLASSIC:
        return getattr(importlib.import_module("symphony.classic"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_CLASSIC])
