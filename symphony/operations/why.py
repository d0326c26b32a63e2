"""The causal chain of one process, from its declaration to its state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from symphony.backends.observe import Link
from symphony.operations import stacks
from symphony.plan.names import DECLARED

_PROCESS = "symphony:index:Process"


@dataclass(frozen=True)
class Why:
    """The links of one process; a broken one is the last."""

    stack: str
    path: str
    links: tuple[Link, ...]

    def to_json(self) -> dict[str, Any]:
        links = [asdict(link) for link in self.links]
        return {"stack": self.stack, "path": self.path, "links": links}


def why(stack: stacks.Stack, path: str) -> Why:
    """Return the chain of one of the known() processes.

    Raises:
        UserError: The experiment runs elsewhere.
    """
    stack = stacks.ensure_same_location(stack)
    declared = Link("declared", _declared(stack).get(path) or "no longer, or the state does not say where")
    return Why(stack.shown, path, (declared, *_links(stack, path)))


def known(stack: stacks.Stack) -> Iterable[str]:
    """Return the processes that the program declares or that the state records.

    Raises:
        UserError: There are none.
    """
    paths = dict.fromkeys([*_declared(stack), *stack.processes])
    if not paths:
        raise stack.not_up()
    return paths


def _links(stack: stacks.Stack, path: str) -> Iterable[Link]:
    if stack.recorded is None:
        remedy = f"`symphony up {stack.shown}` tries again and says why not"
        return [Link("started", "no: the last `up` started nothing", broken=True, remedy=remedy)]
    return stack.observer().why(stack.recorded, path, stack.shown)


def _declared(stack: stacks.Stack) -> dict[str, str]:
    """Return path -> the line of the program that declares it, as the state records."""
    resources = stack.state.resources if stack.state else ()
    declared = {each.name: each.inputs.get(DECLARED, {}) for each in resources if each.type == _PROCESS}
    return {path: str(each.get("where") or "") for path, each in declared.items()}
