"""The plain values of a plan as users read them: what stands in it once for all stands in every process.

Plan writes them so, and operations what a program handed over: with a thousand processes and hundreds of
services the variables of all services in each of them would be tens of megabytes to write and to read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def whole(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Plan.to_dict() with the variables of all services in each process."""
    shared: Mapping[str, str] = plain["service_env"]
    processes = [{**each, "service_env": {**shared, **each["service_env"]}} for each in plain["processes"]]
    kept = {name: value for name, value in plain.items() if name != "service_env"}
    return {**kept, "processes": processes}
