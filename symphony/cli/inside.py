"""Runs a command in a process; `exec` calls it, and the command table without a parser."""

from __future__ import annotations

from collections.abc import Sequence

from symphony.cli import choose
from symphony.errors import UserError
from symphony.operations.exec import execute


def run(*words: str, rest: Sequence[str] | None) -> int:
    """Run what stands after `--` in `[EXPERIMENT] PROCESS`, one or two words; its exit code."""
    stack, path = choose.process(words)
    if not rest:
        raise UserError("there is no command", remedy=f"Say it after --, as `symphony exec {path} -- env`")
    return execute(stack, path, rest, choose.streams())
