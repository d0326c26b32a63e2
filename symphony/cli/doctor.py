"""`symphony doctor`: what is here, what is missing and what gets it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from symphony.backends.prerequisites import Finding
from symphony.cli import screen
from symphony.operations.doctor import examine, is_ready


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what symphony needs on this machine: what is here, what is missing and what gets it.

    Examples:
        symphony doctor
    """
    findings = examine()
    if as_json:
        screen.show_json([asdict(finding) for finding in findings])
    else:
        screen.show_table(("what", "state", "version", "where, or what gets it"), map(_row, findings))
    raise typer.Exit(0 if is_ready(findings) else 1)


def _row(finding: Finding) -> tuple[str, str, str, str]:
    state = "here" if finding.there else "missing" if finding.needed else "-"
    return finding.name, state, finding.version, finding.place if finding.there else finding.get
