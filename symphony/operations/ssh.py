"""Lets a person work in a process: in its window, or a shell in its container."""

from __future__ import annotations

from symphony.backends.access import Streams
from symphony.operations import stacks
from symphony.operations.access import running


def login(stack: stacks.Stack, given: str, streams: Streams) -> int:
    """The exit code with which they leave. UserError: no such process."""
    result = running(stack)
    return result.access.shell(result.recorded, result.process(given), streams)
