"""`symphony doctor`: the prerequisites of this machine."""

from __future__ import annotations

from dataclasses import asdict

import typer

from symphony.backends.prerequisites import Finding
from symphony.cli import options, screen
from symphony.operations.doctor import examine, is_ready


def command(
    as_json: options.AsJson = False,
) -> None:
    """Check the prerequisites of symphony on this machine, and show how to install the missing ones.

    Examples:
        symphony doctor
    """
    findings = examine()
    if as_json:
        screen.show_json([asdict(finding) for finding in findings])
    else:
        screen.show_table(("name", "state", "version", "place, or how to install it"), map(_row, findings))
    raise typer.Exit(0 if is_ready(findings) else 1)


def _row(finding: Finding) -> tuple[str, str, str, str]:
    state = "here" if finding.there else "missing" if finding.needed else "-"
    return finding.name, state, finding.version, finding.place if finding.there else finding.get
