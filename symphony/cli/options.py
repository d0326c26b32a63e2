"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from symphony.cli import complete

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Force = Annotated[bool, typer.Option("--yes", "-y", "--force", "-f", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-dr", help="Only show what would be done.")]
Experiment = Annotated[
    str | None,
    typer.Argument(
        metavar="[EXPERIMENT]", help="Name of the experiment.", autocompletion=complete.experiments
    ),
]
Program = Annotated[
    str | None,
    typer.Argument(
        metavar="[STACK]",
        help="Name of the experiment, which the only program of a project does not need. Where a"
        " project has several, NAME or NAME.ANYTHING runs program NAME.",
        autocompletion=complete.programs,
    ),
]
Process = Annotated[
    list[str],
    typer.Argument(
        metavar="[EXPERIMENT] PROCESS",
        help="The process, or group/process.",
        autocompletion=complete.process,
    ),
]
Processes = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[EXPERIMENT] [PROCESS]...",
        help="Processes, groups, patterns such as 'worker-*'; all by default.",
        autocompletion=complete.processes,
    ),
]
