"""The process that is meant, and what reaches into it."""

from __future__ import annotations

from dataclasses import dataclass

from symphony.backends import registry
from symphony.backends.access import Access
from symphony.backends.observe import Recorded
from symphony.errors import UserError
from symphony.operations import stacks
from symphony.operations.matching import match


@dataclass(frozen=True)
class Running:
    """An experiment of which something was started, and what reaches into its processes."""

    stack: stacks.Stack
    recorded: Recorded
    access: Access

    def process(self, given: str) -> str:
        """The path of the process that is meant. UserError: none or several."""
        return match(given, self.recorded.processes, "process")


def running(stack: stacks.Stack) -> Running:
    """UserError: nothing was ever started, or it runs elsewhere."""
    stacks.ensure_same_location(stack)
    if stack.recorded is None or stack.backend is None:
        raise UserError(
            f"{stack.shown} has no processes", remedy=f"Start it with `symphony up {stack.shown}`"
        )
    return Running(stack, stack.recorded, registry.get(stack.backend).access)
