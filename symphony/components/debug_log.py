"""Keeps the debug messages of Pulumi's SDK from a symphony command, which shows none.

Each is a call that waits for the engine, five a resource: a seventh of the work of an `up`.
"""

from __future__ import annotations

from typing import Any

from pulumi import log

from symphony.plan import plan_file

_debug = log.debug


def drop_debug_messages() -> None:
    """From now on, for as long as a symphony command listens; plain `pulumi up --debug` shows them all."""
    log.debug = _unless_asked


def _unless_asked(*words: Any, **more: Any) -> None:
    if not plan_file.is_asked():
        _debug(*words, **more)
