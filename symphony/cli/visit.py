"""`symphony visit`: opens a service in the browser."""

import sys
from typing import Annotated

import typer

from symphony.cli import arguments, screen
from symphony.errors import SymphonyError
from symphony.operations import access


def command(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EXPERIMENT] [SERVICE]",
            help="The service; by default the only exposed one, else the only one.",
            autocompletion=arguments.complete_service,
        ),
    ] = None,
    url_only: Annotated[bool, typer.Option("--url-only", "-u", help="Only print the URL.")] = False,
) -> int:
    """Open a service in the browser. A service inside a cluster is forwarded to this machine until Ctrl-C.

    Examples:
        symphony visit rl tensorboard
        symphony visit tensorboard --url-only
    """
    if len(words or ()) > 2:
        raise typer.BadParameter("expected at most an EXPERIMENT and a SERVICE")
    stack, names = arguments.split(words or (), lambda stack, names: access.service(stack, names[0]))
    name = access.service(stack, names[0] if names else None)
    route = access.route(stack, name)
    remedy = f"See `symphony process {stack.display_name}`"
    if route.warning and route.address:
        raise SymphonyError(route.warning, remedy=remedy)
    if route.warning:
        _note(f"{route.warning}. {remedy}.")
    if route.address:
        return _open(route.address, url_only)
    if route.forward is None:
        raise SymphonyError(f"the service {name} cannot be reached from this machine", remedy=remedy)
    with route.forward() as forward:
        _open(forward.address, url_only)
        _note(f"{forward.address} is forwarded to {name} of {stack.display_name}. Ctrl-C stops it.")
        for trouble in forward.troubles():
            _note(trouble)
    return 0


def _open(address: str, url_only: bool) -> int:
    url = f"http://{address}"
    print(screen.clean(url), flush=True)
    if url_only:
        return 0
    import webbrowser

    if webbrowser.open(url):
        return 0
    _note("found no browser on this machine; open the URL yourself.")
    return 1


def _note(text: str) -> None:
    print(f"symphony: {screen.clean(text)}", file=sys.stderr, flush=True)
