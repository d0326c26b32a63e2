"""Runs a command in a process."""

from __future__ import annotations

from collections.abc import Sequence

from symphony.backends.access import Streams
from symphony.errors import UserError
from symphony.operations import stacks
from symphony.operations.access import running


def execute(stack: stacks.Stack, given: str, words: Sequence[str], streams: Streams) -> int:
    """The exit code of the command. UserError: no such process, no command; CannotStart: not there."""
    result = running(stack)
    path = result.process(given)
    if not words or not words[0]:
        raise UserError("there is no command to run", where=path)
    return result.access.execute(result.recorded, path, words, streams)
