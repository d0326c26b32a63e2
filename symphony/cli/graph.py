"""`symphony graph`: shows processes, the services between them, and their dependencies."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from symphony.cli import arguments, screen
from symphony.engine import workspace
from symphony.errors import UserError
from symphony.operations import graph
from symphony.operations.graph import Graph
from symphony.plan.problems import count

_STYLES = {"planned": "", "well": "green", "done": "dim", "waiting": "yellow", "bad": "bold red"}


def command(
    name: arguments.Program = None,
    as_json: arguments.AsJson = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print a Mermaid flowchart.")] = False,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write the graph to an SVG file.")
    ] = None,
    png: Annotated[
        Path | None, typer.Option("--png", metavar="FILE", help="Write the graph to a PNG file.")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show the program's plan, not the running experiment.")
    ] = False,
) -> None:
    """Show processes, the services between them with their ports, and their dependencies.

    If the experiment is up, colours show states; otherwise its program is planned. Pictures are drawn by
    Graphviz (`dot`) if it is installed.

    Examples:
        symphony graph rl
        symphony graph rl --svg rl.svg
        symphony graph rl --mermaid
    """
    shown = _graph_of_plan(name) if plan else _running(name) or _graph_of_plan(name)
    if as_json:
        screen.show_json(shown)
        return
    if mermaid or svg or png:
        for kind, file in (("svg", svg), ("png", png)):
            if file is not None:
                _write(file, graph.picture(shown, kind))
        if mermaid:
            print(graph.mermaid(shown))
        return
    for line in _lines(shown):
        print(line)


def _running(name: str | None) -> Graph | None:
    try:
        stack = arguments.experiment(name)
    except UserError:
        if workspace.find_usable() is None:
            raise
        # The name may be that of a program that was never up.
        return None
    return graph.of_stack(stack) if stack.recorded is not None else None


def _graph_of_plan(name: str | None) -> Graph:
    # Imported here: only planning needs them.
    from symphony.operations import selected_stack
    from symphony.operations.plan import Planned, ProgramOutput, plan_of

    output = ProgramOutput().to(lambda line: print(screen.program_line(line), file=sys.stderr, flush=True))
    planned = plan_of(selected_stack.select(name), output)
    if not isinstance(planned, Planned):
        what = f"{planned.stack} declares a cluster, which has no processes to show"
        raise UserError(what, remedy="Name a stack that declares an experiment")
    return graph.of_plan(planned)


def _write(file: Path, content: bytes) -> None:
    try:
        file.write_bytes(content)
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}", remedy="Name another file") from None
    print(file)


def _lines(shown: Graph) -> Iterator[str]:
    """Yield the lines for a terminal: each process with its services and dependencies."""
    paint = screen.painter()
    total = count(sum(len(node.paths) for node in shown.nodes), "process", "processes")
    yield f"{shown.name} on {shown.backend}: {total}, {count(len(shown.services), 'service')}"
    width = max((len(node.name) for node in shown.nodes), default=0)
    for group, members in shown.groups.items():
        if group:
            yield paint(group, "bold")
        for number in members:
            node, indent = shown.nodes[number], "  " if group else ""
            yield f"{indent}{paint(f'{node.name:{width}}', _STYLES[node.health])}  {node.state}".rstrip()
            for line in screen.plain_lines([*_uses(shown, number)]):
                yield f"{indent}    {line}"


def _uses(shown: Graph, number: int) -> Iterator[tuple[str, str, str]]:
    for service in shown.services:
        if service.binds == number:
            clients = ", ".join(shown.nodes[client].path for client in service.connects)
            exposed = "exposed " if service.exposed else ""
            yield "binds", service.label, f"{exposed}{'<- ' if clients else ''}{clients}"
    for service in shown.services:
        if number in service.connects:
            yield "connects", service.label, f"-> {shown.nodes[service.binds].path}"
    for dependency in shown.dependencies:
        if dependency.waits == number:
            yield "after", shown.nodes[dependency.on].path, f"({dependency.condition})"
