"""Opens a service in the browser; `visit` calls it, and the command table without a parser."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from symphony.backends.access import Forward
from symphony.cli import choose, screen
from symphony.errors import SymphonyError, UserError
from symphony.operations import stacks
from symphony.operations.matching import AmbiguousError
from symphony.operations.visit import service, way


def visit(*words: str, url_only: bool = False) -> int:
    """Open the service that `[EXPERIMENT] [SERVICE]` means, at most two words; the exit code."""
    stack, name = _meant(words)
    found = way(stack, name)
    if found.address:
        return _opened(found.address, url_only)
    if found.forward is None:
        raise SymphonyError(f"{name} cannot be reached from here")
    with found.forward() as forward:
        _opened(forward.address, url_only)
        _narrate(f"{forward.address} is {name} of {stack.shown} until Ctrl-C.")
        _wait(forward)
    return 0


def _meant(words: Sequence[str]) -> tuple[stacks.Stack, str]:
    """The experiment and the service: one word may be a service of the current experiment."""
    if len(words) != 1:
        stack = choose.experiment(words[0] if words else None)
        return stack, _service(stack, words[1] if words else None)
    try:
        stack = choose.experiment(words[0])
    except AmbiguousError:
        raise
    except UserError as error:
        try:
            stack = stacks.one(None)
            return stack, service(stack, words[0])
        except UserError:
            raise error from None
    return stack, _service(stack, None)


def _service(stack: stacks.Stack, said: str | None) -> str:
    return choose.asking(lambda name: service(stack, name), said)


def _opened(address: str, url_only: bool) -> int:
    """Print where it is, and open it unless that is not wanted."""
    url = f"http://{address}"
    print(screen.clean(url), flush=True)
    if url_only:
        return 0
    import webbrowser

    if webbrowser.open(url):
        return 0
    _narrate("there is no browser on this machine; open it where there is one.")
    return 1


def _wait(forward: Forward) -> None:
    for trouble in forward.troubles():
        _narrate(trouble)


def _narrate(text: str) -> None:
    print(f"symphony: {screen.clean(text)}", file=sys.stderr, flush=True)
