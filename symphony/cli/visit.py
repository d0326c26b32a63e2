"""`symphony visit`: a service in the browser."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from symphony.backends.access import Forward
from symphony.cli import choose, complete, screen
from symphony.errors import SymphonyError
from symphony.operations import stacks
from symphony.operations.visit import service, way


def command(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EXPERIMENT] [SERVICE]",
            help="The service; none means the exposed one.",
            autocompletion=complete.service,
        ),
    ] = None,
    url_only: Annotated[
        bool, typer.Option("--url-only", "-u", help="Print the URL and open no browser.")
    ] = False,
) -> int:
    """Open a service in the browser. One inside a cluster is forwarded to this machine until Ctrl-C.

    Examples:
        symphony visit rl tensorboard
        symphony visit tensorboard --url-only
    """
    if len(words or ()) > 2:
        raise typer.BadParameter("name one experiment and one service")
    stack, name = _meant(words or ())
    result = way(stack, name)
    if result.warning:
        _narrate(f"{result.warning}. See `symphony process {stack.shown}`.")
    if result.address:
        return _opened(result.address, url_only)
    if result.forward is None:
        raise SymphonyError(f"{name} cannot be reached from here")
    with result.forward() as forward:
        _opened(forward.address, url_only)
        _narrate(f"{forward.address} is {name} of {stack.shown} until Ctrl-C.")
        _wait(forward)
    return 0


def _meant(words: Sequence[str]) -> tuple[stacks.Stack, str]:
    """The experiment and the service: one word may be a service of the current experiment."""
    if len(words) == 2:
        return choose.in_either_order(words, lambda stack, given: (stack, _service(stack, given)))
    if not words:
        stack = choose.experiment(None)
        return stack, _service(stack, None)
    if (stack := choose.current_with(words, stacks.addresses)) is not None:
        return stack, _service(stack, words[0])
    stack, name = choose.either(
        lambda: (choose.experiment(words[0]), ""),
        lambda: ((current := stacks.find_one(None)), service(current, words[0])),
    )
    return stack, name or _service(stack, None)


def _service(stack: stacks.Stack, given: str | None) -> str:
    return choose.asking(lambda name: service(stack, name), given)


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
