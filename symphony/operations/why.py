"""Why one process is as it is: the one chain from its declaration to now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from symphony.backends.observe import Link
from symphony.errors import UserError
from symphony.operations import stacks
from symphony.operations.matching import match

_PROCESS = "symphony:index:Process"


@dataclass(frozen=True)
class Why:
    """The links of one process; a broken one is the last."""

    stack: str
    path: str
    links: tuple[Link, ...]

    def to_json(self) -> dict[str, Any]:
        return {"stack": self.stack, "path": self.path, "links": [asdict(link) for link in self.links]}


def why(stack: stacks.Stack, given: str) -> Why:
    """The chain of the process that is meant.

    UserError: there is none, nothing was ever started, or it runs elsewhere.
    """
    stacks.ensure_same_location(stack)
    declared = _declared(stack)
    known = dict.fromkeys([*declared, *(stack.recorded.processes if stack.recorded else ())])
    if not known:
        raise UserError(
            f"{stack.shown} has no processes", remedy=f"Start it with `symphony up {stack.shown}`"
        )
    path = match(given, known, "process")
    first = Link("declared", declared.get(path) or "not any more, or not known where")
    return Why(stack.shown, path, (first, *_links(stack, path)))


def _links(stack: stacks.Stack, path: str) -> Iterable[Link]:
    if stack.recorded is None:
        remedy = f"`symphony up {stack.shown}` tries again and says why not"
        return [Link("started", "no: the last `up` started nothing", broken=True, remedy=remedy)]
    return stack.observer().why(stack.recorded, path, stack.shown)


def _declared(stack: stacks.Stack) -> dict[str, str]:
    """path -> the line of the program that declares it, as the last run noted it."""
    resources = stack.state.resources if stack.state else ()
    return {each.name: str(each.outputs.get("declared") or "") for each in resources if each.type == _PROCESS}
