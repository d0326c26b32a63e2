"""Runs a command in a process."""

from __future__ import annotations

from collections.abc import Sequence

from symphony.backends.access import Streams
from symphony.errors import UserError
from symphony.operations import stacks
from symphony.operations.access import running


def execute(stack: stacks.Stack, said: str, words: Sequence[str], streams: Streams) -> int:
    """The exit code of the command. UserError: no such process, no command; CannotStart: not there."""
    found = running(stack)
    path = found.process(said)
    if not words or not words[0]:
        raise UserError("there is no command to run", where=path)
    return found.access.execute(found.recorded, path, words, streams)
