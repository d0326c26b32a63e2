"""`symphony top`: shows an experiment live."""

from typing import Annotated

import typer

from symphony.cli import arguments, screen
from symphony.cli.process import style_of
from symphony.cli.top_table import HEAD, SERVICES, cells, edge_cells, headline
from symphony.errors import UserError
from symphony.operations.top import Sampler, View


def command(
    name: arguments.Experiment = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Print once and exit, with status 1 if a process or service is not ready."
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print JSON once and exit, with status 1 if a process or service is not ready."
        ),
    ] = False,
) -> int:
    """Watch an experiment: processes with CPU, memory and last line, services with their connections.

    Keys: l logs, w why, r restart, s shell, p Python stack, d test all connections now, f fold
    numbered processes, / filter, q quit.

    Examples:
        symphony top rl
        symphony top rl --once
        symphony top rl --once --json
    """
    stack = arguments.experiment(name)
    sampler = Sampler(stack)
    if once or as_json:
        view = sampler.sample(last_lines_of=None)  # those of all processes
        screen.show_json(view.to_json()) if as_json else _print(view)
        return 0 if view.is_ready else 1
    if not arguments.is_terminal():
        raise UserError("`symphony top` needs a terminal", remedy="Add --once to print once and exit")
    try:
        from symphony.cli.live import Live
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise UserError(
            "the package textual, which draws the screen, is not installed",
            remedy="Run `pip install 'symphony-launch[top]'`, or add --once",
        ) from None
    Live(sampler).run(mouse=False)
    return 0


def _print(view: View) -> None:
    print(screen.clean(headline(view)))
    if view.rows:
        rows = [cells([row], row.status.name) for row in view.rows]
        styles = [style_of([row.status]) for row in view.rows]
        texts = [[screen.cut(str(cell)) for cell in row] for row in rows]
        screen.show_table(HEAD, texts, right=(4, 5, 7), states=styles)
    if view.edges:
        screen.show_table(SERVICES, map(edge_cells, view.edges))
