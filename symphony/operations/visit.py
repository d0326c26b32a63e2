"""Finds how a service of an experiment is reached from this machine."""

from __future__ import annotations

from symphony.backends.access import Way
from symphony.errors import UserError
from symphony.operations import stacks
from symphony.operations.access import running
from symphony.operations.matching import match


def service(stack: stacks.Stack, given: str | None) -> str:
    """The service that is meant; without a name the only one that is exposed, or that there is.

    UserError: none or several.
    """
    known = stacks.addresses(stack)
    if given is not None:
        return match(given, known, "service")
    exposed = [name for name in stacks.exposed(stack) if name in known]
    for candidates in (exposed, list(known)):
        if len(candidates) == 1:
            return candidates[0]
    if not known:
        raise UserError(f"{stack.shown} has no services", remedy="A process gets one with binds or exposes")
    raise UserError("which service?", remedy=f"Name one of: {', '.join(exposed or sorted(known))}")


def way(stack: stacks.Stack, name: str) -> Way:
    """How that service is reached. UserError: nothing was ever started."""
    result = running(stack)
    return result.access.way(result.recorded, name, stacks.addresses(stack)[name])


def external_address(stack: stacks.Stack, given: str) -> str:
    """host:port under which a service can be reached from here. UserError: only through a forward."""
    name = service(stack, given)
    if address := way(stack, name).address:
        return address
    raise UserError(
        f"{name} of {stack.shown} has no address outside of its cluster",
        remedy=f"`symphony visit {stack.shown} {name}` forwards a port; symphony:expose gives it an address",
    )
